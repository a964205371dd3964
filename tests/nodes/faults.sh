# shellcheck shell=bash
# A node that is full, clients that are killed or stopped, an engine that is killed while files are written, and a node
# whose data is gone. Sourced by run.sh.
# shellcheck disable=SC2016 # The shells on the hosts expand it.
: "${work:?a scratch directory}" "${dir:?that of pools}"

# The error names the node, and no data is left there.
a_node_without_room_is_named() {
    on h2 sh -c "mkdir /dev/shm/small && mount -t tmpfs -o size=8M tmpfs /dev/shm/small" &&
        says "node h2: " esker_on h1 pool create narrow --size 32M --hosts h1,h2,h3 --launcher ssh --dir /dev/shm/small &&
        [ -z "$(on h2 ls /dev/shm/small)$(on h1 ls /dev/shm/small)" ] && on h2 umount /dev/shm/small
}

# Objects of one target each fill one node first. The error names it; other nodes accept more, and so does it once it has
# free space.
a_full_node() {
    local object stuck="" name printed pool=nodes:$work/brim.map
    esker_on h1 pool create brim --size 40M --targets 1 --hosts h1,h2,h3 --launcher ssh --dir "$dir" --map "$work/brim.map" &&
        esker_on h1 cont create "$pool" filling && esker_on h1 cont create "$pool" more || return
    head -c 4000000 /dev/urandom >"$work/filling"
    for object in $(seq 60); do
        printed=$(esker_on h4 array put "$pool" filling "$object" "$work/filling" --class S1 2>&1) || break
    done
    name=$(sed -n 's/.*node \(h[123]\): .*full.*/\1/p' <<<"$printed")
    [ -n "$name" ] || { echo "it does not name a node: $printed" && return 1; }
    for object in $(seq 40); do
        esker_on h4 array put "$pool" more "$object" "$work/filling" --class S1 >"$work/more" 2>&1 && break
        grep -q "node $name: " "$work/more" && stuck=$object || return
    done
    esker_on h4 array get "$pool" more "$object" -o "$work/back" && cmp "$work/filling" "$work/back" || return
    esker_on h4 cont destroy "$pool" filling &&
        esker_on h4 array put "$pool" more "${stuck:-again}" "$work/filling" --class S1 &&
        esker_on h4 array get "$pool" more "${stuck:-again}" -o "$work/back" && cmp "$work/filling" "$work/back" &&
        esker_on h1 pool destroy --force "$pool"
}

# renames_on HOST: renames a file for ever, a commit over the nodes of two directories each time.
renames_on() {
    ON_TIMEOUT=0 on "$1" "$ESKER" run tank/tree -- sh -c '
        cd /esker && while :; do mv left/file right/file && mv right/file left/file; done' >"$work/renames" 2>&1 &
}

# clients_of HOST: the processes on the host that have the library preloaded.
clients_of() {
    local pid
    for pid in $(processes_of "$1"); do
        grep -qz '^ESKER_CONT=' "/proc/$pid/environ" && echo "$pid"
    done 2>/dev/null
    true
}

in_tree() {
    local host=$1
    shift
    esker_on "$host" run tank/tree -- sh -c "cd /esker && $*"
}

# A client stops at any moment. The others continue, and find one file. Afterwards the client continues.
a_stopped_client() {
    local round clients
    in_tree h1 "mkdir left right && echo here >left/file" || return
    renames_on h4
    for round in 1 2 3; do
        in_time in_tree h1 "[ -e right/file ]" 2>/dev/null || return
        # A client that was starting meanwhile is stopped the second time.
        for _ in 1 2; do
            clients=$(clients_of h4)
            [ -n "$clients" ] || { echo "nothing renames any more" && return 1; }
            # shellcheck disable=SC2086 # Numbers.
            kill -STOP $clients 2>/dev/null
        done
        in_tree h1 "echo $round >round && cat left/file right/file 2>/dev/null | grep -c here | grep -qx 1" || return
        # shellcheck disable=SC2086
        kill -CONT $clients 2>/dev/null
    done
    # shellcheck disable=SC2046
    kill -KILL $(clients_of h4) 2>/dev/null
    wait $!
    in_tree h1 "cat left/file right/file 2>/dev/null | grep -c here | grep -qx 1" && esker_on h1 fs check tank/tree
}

# A removed file can be read by the process that has it open, and is freed once that process is killed. The container is
# new: engines keep the leases of clients of earlier tests for a while, and their removed files with them.
a_killed_client_with_an_open_file() {
    local holder status=0
    esker_on h4 cont create tank held --type posix &&
        esker_on h1 run tank/held -- sh -c "echo held >/esker/open" && mkfifo "$work/wake" || return
    on h4 "$ESKER" run tank/held -- sh -c "exec 3</esker/open; echo ready; read -r go <'$work/wake'; cat <&3; echo finished; exec sleep 1000" \
        >"$work/holder" 2>&1 &
    holder=$!
    removed_file_is_held || status=1
    # shellcheck disable=SC2046
    kill -KILL $(clients_of h4)
    wait $holder
    [ $status = 0 ] &&
        esker_on h1 fs check tank/held --repair && esker_on h1 fs check tank/held >"$work/after" && ! grep leftovers "$work/after"
}

# Another process removes the file that the process has open, which then reads it.
removed_file_is_held() {
    in_time grep -q ready "$work/holder" || return
    esker_on h1 run tank/held -- rm /esker/open && echo go >"$work/wake" || return
    in_time grep -q finished "$work/holder" || return
    grep -q held "$work/holder" && prints "1 contents of removed files" esker_on h1 fs check tank/held
}

# An engine is killed and started again while a program writes a file through it.
an_engine_killed_under_a_writer() {
    local writer
    head -c 60000000 /dev/urandom >"$work/long"
    esker_on h4 run tank/tree -- dd if="$work/long" of=/esker/long bs=100k status=none &
    writer=$!
    until [ "$(esker_on h1 run tank/tree -- stat -c %s /esker/long 2>/dev/null || echo 0)" -gt 1000000 ]; do
        kill -0 $writer || break
    done
    kill_engine h2 KILL && restart_engine h2 && wait $writer &&
        esker_on h3 run tank/tree -- cmp "$work/long" /esker/long && in_tree h1 "rm long"
}

# A container that is destroyed while a node is away is found on that node afterwards, and removed.
a_container_destroyed_without_a_node() {
    esker_on h4 cont create tank brief && esker_on h4 kv put tank/brief first key value && kill_engine h2 KILL || return
    esker_on h4 cont destroy tank brief >"$work/destroyed" 2>&1
    grep -q "node h2 still has its data" "$work/destroyed" && restart_engine h2 &&
        says "was destroyed while the node did not answer" esker_on h4 pool check tank &&
        prints "repaired on h2: container" esker_on h4 pool check tank --repair &&
        prints h3 esker_on h4 pool check tank
}

maintenance() {
    prints h3 esker_on h4 pool scrub tank && prints freed esker_on h4 pool compact tank && esker_on h1 pool check tank
}

# A node's pool is gone: the check reports that and lists the lost data, and the pool continues with a new one.
a_node_whose_data_is_gone() {
    local number files
    esker_on h4 cont create tank precious --type posix &&
        esker_on h4 run tank/precious -- sh -c 'cd /esker && for n in $(seq 40); do echo "$n" >"file-$n"; done' || return
    kill_engine h3 KILL && on h3 rm -rf "$dir/tank.2" || return
    says "container precious cannot read its data on h3" esker_on h4 pool check tank || return
    files=$(esker_on h4 fs check tank/precious --json 2>/dev/null | grep -o '"text": "/file-[0-9]*"' | wc -l)
    [[ $files -gt 0 && $files -le 40 ]] || { echo "$files files are lost" && return 1; }
    says "has its pool on this machine" on h3 "$ESKER" engine run --map "$dir/tank.map" || return
    restart_engine h3 --node h3 --new-node-pool || return
    says "Input/output error" esker_on h4 run tank/precious -- sh -c 'cat /esker/file-*' || return
    says "has lost the data that it stored" esker_on h4 pool check tank &&
        prints "container precious is missing" esker_on h4 pool check tank --repair &&
        prints h3 esker_on h4 pool check tank || return
    esker_on h4 fs check tank/precious --repair >"$work/mended" 2>&1
    esker_on h4 run tank/precious -- sh -c 'cd /esker && rm -rf * && echo new >new && cat new' | grep -qx new &&
        for number in $(seq 30); do
            esker_on h4 kv put tank/values anew "key $number" "$number" || return
        done &&
        for number in $(seq 30); do
            prints "$number" esker_on h1 kv get tank/values anew "key $number" || return
        done
}

faults() {
    check "an error names the node that has no space for its pool" a_node_without_room_is_named
    check "a node that is full" a_full_node
    check "a client that is stopped in the middle of commits" a_stopped_client
    check "a client that is killed with an open file" a_killed_client_with_an_open_file
    check "an engine that is killed while a file is written" an_engine_killed_under_a_writer
    check "a container that is destroyed while a node is away" a_container_destroyed_without_a_node
    check "scrub, compact and check on all nodes" maintenance
    check "a node whose data is gone" a_node_whose_data_is_gone
}
