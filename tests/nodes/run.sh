#!/usr/bin/env bash
# A pool over three hosts, which are network namespaces of this machine, used from a fourth: the conformance suite, files,
# fields, MPI, and failures of engines and the network. Then a pool that is reached over the fabric.
#
# environment: ESKER, the command; ESKER_OVER_NODES, the test `over_nodes` of crates/client as cargo built it;
#              ESKER_REFERENCE, the test `reference` of crates/dfs; ESKER_LIB, the directory of libdaos, and
#              ESKER_INCLUDE, that of the headers; CC, the C compiler; and those of suites.sh
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
: "${ESKER:?names the command}"
# shellcheck source-path=SCRIPTDIR source=hosts.sh
source "$here/hosts.sh"
if [ -z "${ESKER_HOSTS:-}" ]; then
    (as_root_of_hosts bash "$0" "$@")
    status=$?
    [ $status = 77 ] || exit $status
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
passed=0 failed=0 skipped=0
trap hosts_down EXIT
work=$ESKER_HOSTS/work
mkdir "$work"
dir=/dev/shm/esker
export ESKER_POOLS=$dir ESKER_SSH=$here/ssh
# A cluster for tests is on the loopback of this machine, which hosts do not reach.
unset ESKER_TEST_RADOS
# shellcheck source-path=SCRIPTDIR source=programs.sh
source "$here/programs.sh"
# shellcheck source-path=SCRIPTDIR source=suites.sh
source "$here/suites.sh"
# shellcheck source-path=SCRIPTDIR source=faults.sh
source "$here/faults.sh"
# shellcheck source-path=SCRIPTDIR source=fabric.sh
source "$here/fabric.sh"
# shellcheck source-path=SCRIPTDIR source=../c/field_io/build.sh
source "$here/../c/field_io/build.sh"

# check WHAT COMMAND...: reports the result, with the output if the command failed.
check() {
    local what=$1
    shift
    if "$@" >"$work/log" 2>&1; then
        echo "ok      $what"
        passed=$((passed + 1))
    else
        echo "FAILED  $what" && sed 's/^/        /' "$work/log"
        failed=$((failed + 1))
    fi
}

# skip WHAT WHY: counts what cannot be run here.
skip() {
    echo "skipped $1: $2"
    skipped=$((skipped + 1))
}

# says TEXT COMMAND...: the command fails, and its output contains the text.
says() {
    local text=$1 printed
    shift
    if printed=$("$@" 2>&1); then
        echo "succeeded: $*" && return 1
    fi
    [[ $printed == *"$text"* ]] || { echo "$printed" && return 1; }
}

# prints TEXT COMMAND...: the command succeeds, and its output contains the text.
prints() {
    local text=$1 printed
    shift
    printed=$("$@" 2>&1) || { echo "$printed" && return 1; }
    [[ $printed == *"$text"* ]] || { echo "$printed" && return 1; }
}

esker_on() {
    local host=$1
    shift
    on "$host" "$ESKER" "$@"
}

# engine_of HOST: the processes of engines there.
engine_of() {
    local pid
    for pid in $(processes_of "$1"); do
        [ "/proc/$pid/exe" -ef "$ESKER" ] && tr '\0' ' ' <"/proc/$pid/cmdline" | grep -q '^[^ ]* engine ' && echo "$pid"
    done 2>/dev/null
    true
}

# carry_map POOL: copies the map to a client's host, which has nothing else of the pool.
carry_map() {
    on h1 cat "$dir/$1.map" >"$work/$1.map" && on h4 sh -c "mkdir -p $dir && umask 077 && cat >$dir/$1.map" <"$work/$1.map"
}

create_pool() {
    esker_on h1 pool create tank --size 400M --targets 2 --hosts h1,h2,h3 --launcher ssh --dir $dir
}

values_come_back() {
    esker_on h4 cont create tank values &&
        esker_on h4 kv put tank/values first key from-h4 &&
        prints from-h4 esker_on h2 kv get tank/values first key
}

# restart_engine HOST ARGUMENT...: an engine that was killed is started again by hand, as the how-to says; that of the pool
# whose map is in MAP, if it is set.
restart_engine() {
    local host=$1
    shift
    : >"$work/engine.$host"
    ON_TIMEOUT=0 on "$host" setsid "$ESKER" engine run --map "${MAP:-$dir/tank.map}" "$@" </dev/null >"$work/engine.$host" 2>&1 &
    until grep -q address "$work/engine.$host"; do
        kill -0 $! || { cat "$work/engine.$host" && return 1; }
    done
}

kill_engine() {
    local pids
    pids=$(engine_of "$1")
    [ -n "$pids" ] || { echo "no engine on $1" && return 1; }
    # shellcheck disable=SC2086 # One or more numbers.
    kill "-$2" $pids
}

# Values on every host: puts and gets continue while one host is lost, and its values are readable again afterwards.
a_killed_engine() {
    local number
    for number in $(seq 30); do
        esker_on h4 kv put tank/values many "key $number" "$number" || return
    done
    kill_engine h2 KILL &&
        says h2 esker_on h4 pool query tank &&
        restart_engine h2 &&
        for number in $(seq 30); do
            prints "$number" esker_on h4 kv get tank/values many "key $number" || return
        done
}

# A connection from h4 to h3 (10.77.0.3) is not answered: it is being opened, or has bytes that nobody has taken.
waits_for_h3() {
    awk '$3 ~ /^03004D0A/ && ($4 == "02" || $5 !~ /^0+:/) { found = 1 } END { exit !found }' \
        "/proc/$(<"$ESKER_HOSTS/h4.pid")/net/tcp" ||
        awk 'FNR > 1 && $5 !~ /:0+$/ { found = 1 } END { exit !found }' "/proc/$(<"$ESKER_HOSTS/h3.pid")/net/"tcp{,6}
}

a_stopped_engine() {
    local reader status=0
    kill_engine h3 STOP || return
    esker_on h4 kv list tank/values many >"$work/listed" 2>&1 &
    reader=$!
    in_time waits_for_h3 || status=1
    kill_engine h3 CONT
    wait $reader && [ "$(wc -l <"$work/listed")" = 30 ] && return $status
}

a_partition() {
    local reader status=0
    ip link set h3 down
    esker_on h4 kv list tank/values many >"$work/listed" 2>&1 &
    reader=$!
    in_time waits_for_h3 || status=1
    ip link set h3 up
    wait $reader && [ "$(wc -l <"$work/listed")" = 30 ] && return $status
}

invalid_maps() {
    on h4 sh -c "sed 's/\"secret\": \".*\"/\"secret\": \"$(printf %064d 7)\"/' $dir/tank.map >$dir/other.map && chmod 600 $dir/other.map" &&
        says secret esker_on h4 cont list "nodes:$dir/other.map" &&
        on h4 chmod 644 $dir/other.map && says "chmod 600" esker_on h4 cont list "nodes:$dir/other.map" &&
        on h4 rm $dir/other.map
}

mpi_handles() {
    "mpicc.mpich" -std=gnu11 -O1 -Wall -I"$ESKER_INCLUDE" -o "$work/handles" "$here/handles.c" -L"$ESKER_LIB" -ldaos -luuid &&
        esker_on h4 cont create tank mpi &&
        prints "all ranks have read" under_mpi "$work/handles" tank mpi
}

files_on() {
    WITHOUT=set_ids on "$1" env ESKER_POSIX_CONTAINER=tank/tree ESKER_POSIX_ROUNDS=1 ESKER_REFERENCE_ROUNDS=5 \
        "$here/../posix/run.sh" container
}

# Two hosts archive the samples of ecCodes, a third retrieves all of them.
fields_cross_hosts() {
    local files half archived=0 host
    mapfile -t files < <("$here/../../scripts/samples.sh")
    half=$((${#files[@]} / 2))
    for host in h1 h2; do
        esker_on $host fields archive --store tank/archive "${files[@]:archived:half}" || return
        archived=$((archived + half))
    done
    esker_on h4 fields retrieve --store tank/archive class=all,date=all,step=all,param=all -o "$work/all.grib" &&
        [ -s "$work/all.grib" ] &&
        prints fields esker_on h3 fields status --store tank/archive
}

# The data of files is copied into the pool and out again, from hosts side by side.
staging() {
    local host importing=()
    head -c 20000000 /dev/urandom >"$work/staged"
    for host in h1 h2 h3 h4; do
        esker_on $host fs import "$work/staged" tank/tree:/staged.$host &
        importing+=($!)
    done
    wait "${importing[@]}" || return
    for host in h1 h2 h3 h4; do
        esker_on h1 fs export tank/tree:/staged.$host "$work/back.$host" && cmp "$work/staged" "$work/back.$host" || return
    done
}

copies() {
    esker_on h1 pool create own --size 200M --dir $dir &&
        esker_on h1 cont copy tank/values own/values &&
        prints 7 esker_on h1 kv get own/values many "key 7" &&
        esker_on h1 cont copy own/values tank/again &&
        prints 7 esker_on h3 kv get tank/again many "key 7" &&
        esker_on h1 pool destroy --recursive own
}

# destroyed POOL: destroys the pool, the only one.
destroyed() {
    local host
    esker_on h4 pool destroy --recursive "$1" || return
    for host in h1 h2 h3; do
        # The engine ends soon after its reply.
        for _ in $(seq 500); do
            [ -n "$(engine_of $host)" ] || break
        done
        [ -z "$(engine_of $host)" ] || { echo "an engine runs on $host" && return 1; }
        [ -z "$(on $host ls $dir)" ] || { on $host ls -l $dir && return 1; }
    done
}

hosts_up 4
check "a pool over three hosts is created" create_pool
check "the map is carried to a fourth" carry_map tank
for host in h1 h2 h3; do
    check "$host is listed" prints "$host" esker_on h4 pool query tank
done
[ -z "${ESKER_OVER_NODES:-}" ] ||
    check "the conformance suite" on h4 env ESKER_TEST_NODES="nodes:$dir/tank.map" "$ESKER_OVER_NODES" the_pool_of_the_environment
suites
# A client that is killed while it creates or destroys a container leaves some of it on nodes.
check "remains of killed clients are removed" esker_on h1 pool check tank --repair
check "one host puts values, another gets them" values_come_back
check "maps with a wrong secret or mode are refused" invalid_maps
check "an engine that is killed and started again" a_killed_engine
check "an engine that is stopped for a while" a_stopped_engine
check "a host that is cut off for a while" a_partition
check "a file system" esker_on h4 cont create tank tree --type posix
check "files, from a host of the pool" files_on h1
check "files, from another host" files_on h4
if [ -n "${ESKER_LIB:-}" ]; then
    check "the C programs" on h4 env ESKER_TEST_POOL=tank "$here/../c/run.sh"
    if command -v mpicc.mpich >/dev/null; then
        check "handles cross hosts under MPI" mpi_handles
        benchmarks
    else
        skip "handles cross hosts under MPI, and benchmarks" "MPICH is missing"
    fi
fi
check "files are staged from all hosts" staging
check "containers are copied to other pools and back" copies
if [ -n "$("$here/../../scripts/samples.sh" 2>/dev/null | head -n 1)" ]; then
    check "fields of two hosts are retrieved on a third" fields_cross_hosts
else
    skip fields "ecCodes' samples are missing"
fi
faults
check "a destroyed pool leaves nothing" destroyed tank
fabric
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
