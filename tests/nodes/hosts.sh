#!/usr/bin/env bash
# Hosts on one machine: network namespaces with addresses of their own on one switch, each with a name and a /dev/shm of
# its own. Sourced. Needs root, or a user namespace in which one is root: see `as_root_of_hosts`.

# as_root_of_hosts SCRIPT ARGS...: runs the script again where it may make hosts, unless it may already. Status 77 if this
# machine forbids that.
as_root_of_hosts() {
    [ -z "${ESKER_HOSTS:-}" ] || return 0
    local tool
    for tool in unshare nsenter ip; do
        command -v $tool >/dev/null || { echo "$tool is missing (util-linux, iproute2)" && exit 77; }
    done
    local outside=()
    [ "$(id -u)" = 0 ] || outside=(--user --map-root-user)
    unshare "${outside[@]}" --net --mount --uts true 2>/dev/null ||
        { echo "this machine allows no network namespaces" && exit 77; }
    exec env ESKER_HOSTS="$(mktemp -d "${TMPDIR:-/tmp}/esker-hosts.XXXXXX")" \
        unshare "${outside[@]}" --net --mount --propagation private "$@"
}

# hosts_up N: hosts h1 ... hN at 10.77.0.1 ... 10.77.0.N, and this script's shell at 10.77.0.254.
hosts_up() {
    local number
    ip link set lo up
    ip link add switch type bridge
    ip address add 10.77.0.254/24 dev switch
    ip link set switch up
    echo "127.0.0.1 localhost" >"$ESKER_HOSTS/hosts"
    for number in $(seq "$1"); do
        echo "10.77.0.$number h$number" >>"$ESKER_HOSTS/hosts"
    done
    mount --bind "$ESKER_HOSTS/hosts" /etc/hosts
    for number in $(seq "$1"); do
        host_up "$number"
    done
}

# host_up NUMBER: one process holds the namespaces of a host.
host_up() {
    local host=h$1 pid
    # shellcheck disable=SC2016 # The inner shell expands it.
    unshare --net --mount --uts sh -c '
        mount -t tmpfs -o mode=1777 tmpfs /dev/shm && hostname "$1" && ip link set lo up && : >"$2" && exec sleep infinity
    ' sh "$host" "$ESKER_HOSTS/$host.ready" &
    pid=$!
    echo "$pid" >"$ESKER_HOSTS/$host.pid"
    ip link add "$host" type veth peer name eth0 netns "$(held_by "$pid" "$host")"
    ip link set "$host" master switch up
    on "$host" ip address add "10.77.0.$1/24" dev eth0
    on "$host" ip link set eth0 up
}

# held_by PID HOST: the same PID, once its namespaces are ready.
held_by() {
    while [ ! -e "$ESKER_HOSTS/$2.ready" ]; do
        kill -0 "$1" || return
    done
    echo "$1"
}

# on HOST COMMAND...: runs a command on a host, for at most ON_TIMEOUT seconds; 0 stands for ever.
on() {
    local pid
    pid=$(<"$ESKER_HOSTS/$1.pid")
    shift
    timeout "${ON_TIMEOUT:-600}" nsenter --target "$pid" --net --mount --uts "$@"
}

# in_time COMMAND...: repeats the command until it succeeds. Fails after two minutes, so that what never happens fails a
# check and does not stop the suite.
in_time() {
    local end=$((SECONDS + 120))
    until "$@"; do
        [ $SECONDS -lt $end ] || { echo "not in time: $*" && return 1; }
        sleep 0.05
    done
}

# processes_of HOST: the processes that run there.
processes_of() {
    local at held
    held=/proc/$(<"$ESKER_HOSTS/$1.pid")/ns/net
    for at in /proc/[0-9]*; do
        [ ! "$at/ns/net" -ef "$held" ] || echo "${at#/proc/}"
    done
}

# hosts_down: ends everything that runs on the hosts.
hosts_down() {
    local host
    for host in "$ESKER_HOSTS"/h*.pid; do
        # shellcheck disable=SC2046 # One or more numbers.
        kill -9 $(processes_of "$(basename "$host" .pid)")
    done 2>/dev/null
    umount /etc/hosts
    rm -rf "$ESKER_HOSTS"
}
