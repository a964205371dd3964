#!/usr/bin/env bash
# Runs a Ceph cluster of one monitor and one OSD on loopback, for tests and demos. All its files are in one folder, and
# any number of clusters can run side by side. Needs the packages of `setup.sh ceph`, no privileges, no systemd.
# usage: ceph.sh up [OPTION...] [FOLDER]    create a new one, wait until it responds, print the path of its ceph.conf
#        ceph.sh down [FOLDER]              stop it, and remove the folder with all data
#        ceph.sh status [FOLDER]            report what is running, and how to reach it
#        ceph.sh stop|kill|start osd|mon [FOLDER]
#                                           one daemon: stop it cleanly, kill it, or start it again with its data
# FOLDER defaults to build/ceph. Options of `up`:
#   --store memstore|bluestore   where the OSD stores objects: memory (the default; lost when the OSD is killed), or a
#                                file in FOLDER, which survives that
#   --size SIZE                  capacity of the OSD, 4G by default; memory use is twice the stored data
#   --pool NAME                  name of the pool to create, esker by default
#   --auth                       require a key from clients (cephx); it is in FOLDER/keyring
set -euo pipefail
root=$(dirname "$0")/..

fail() {
    echo "ceph.sh: $*" >&2
    exit 1
}

usage() {
    sed -n 's/^# \{0,1\}//; 2,/^set/ { /^set/d; p }' "$0" >&2
    exit 2
}

# in_time SECONDS WHAT COMMAND...: repeats the command until it succeeds.
in_time() {
    local end=$((SECONDS + $1)) what=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $end ] || fail "$what: not in time; see $dir/log"
        sleep 0.05
    done
}

ask() {
    ceph --connect-timeout 30 -c "$conf" "$@"
}

# Quiet; prints the output of the last attempt if continuing is pointless.
quietly() {
    "$@" >"$dir/log/last" 2>&1 || fail "$1 failed: $(tail -n 3 "$dir/log/last")"
}

# --- daemons: each writes its process id to FOLDER/osd.pid or FOLDER/mon.pid

# Prints the process id of a running daemon of this folder; ignores a number that was reused by another process.
running() {
    local pid
    pid=$(cat "$dir/$1.pid" 2>/dev/null) && grep -qzxF "$conf" "/proc/$pid/cmdline" 2>/dev/null && echo "$pid"
}

gone() {
    ! running "$1"
}

# A killed daemon keeps its files locked briefly after its process is gone, so several attempts may be needed.
start() {
    if running "$1" >/dev/null; then return; fi
    case $1 in
    mon) in_time 30 "a monitor that starts" ceph-mon -c "$conf" -i a ;;
    osd) in_time 30 "an OSD that starts" ceph-osd -c "$conf" -i 0 ;;
    esac
}

# finish SIGNAL DAEMON
finish() {
    local pid
    pid=$(running "$2") || return 0
    kill "-$1" "$pid"
    in_time 60 "the end of process $pid ($2)" gone "$2"
}

osd_is_up() {
    ask osd stat | grep -q ' 1 up'
}

# Monitors report a killed OSD as up for a while: only a response proves that it is up.
pool_answers() {
    quietly timeout 60 rados -c "$conf" -p "$1" put esker.first "$conf"
    quietly rados -c "$conf" -p "$1" rm esker.first
}

start_again() {
    local pool
    start "$1"
    if pool=$(running mon >/dev/null && running osd >/dev/null && ask osd pool ls | head -n 1); then
        pool_answers "$pool"
    fi
}

# --- a new cluster

port_is_taken() {
    (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

# A hundred ports below those that are handed out to clients; each folder starts its search at a different port.
free_ports() {
    local slot try
    slot=$(cksum <<<"$dir")
    for try in {0..99}; do
        port=$((7000 + (${slot%% *} + try) % 200 * 100))
        port_is_taken "$port" || port_is_taken $((port + 1)) || return 0
    done
    fail "no free ports"
}

write_conf() {
    local auth=none
    [ "$cephx" = no ] || auth=cephx
    cat >"$conf" <<END_OF_CONF
[global]
fsid = $(cat /proc/sys/kernel/random/uuid)
mon host = [v2:127.0.0.1:$port]
public addr = 127.0.0.1
cluster addr = 127.0.0.1
ms bind msgr1 = false
ms bind port min = $((port + 1))
ms bind port max = $((port + 99))
auth cluster required = $auth
auth service required = $auth
auth client required = $auth
keyring = $dir/keyring
run dir = $dir/run
admin socket = $dir/run/\$type.\$pid.asok
pid file = $dir/\$type.pid
log file = $dir/log/\$type.log
crash dir = $dir/log
mon data = $dir/mon
mon data avail crit = 0
mon allow pool size one = true
paxos propose interval = 0.05
paxos min wait = 0.01
osd data = $dir/osd
osd pool default size = 1
osd pool default min size = 1
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
osd fast shutdown = false
osd objectstore = $store
memstore device bytes = $size
bluestore block size = $size

# Clients write no logs, sockets or process id files here.
[client]
admin socket =
pid file =
log file =
END_OF_CONF
}

# The keys of the monitor and of the administrator; harmless if keys are not required.
make_keys() {
    quietly ceph-authtool --create-keyring "$dir/keyring" --gen-key -n client.admin \
        --cap mon 'allow *' --cap osd 'allow *'
    quietly ceph-authtool "$dir/keyring" --gen-key -n mon. --cap mon 'allow *'
}

make_monitor() {
    local fsid
    fsid=$(sed -n 's/^fsid = //p' "$conf")
    quietly monmaptool --create --fsid "$fsid" --addv a "[v2:127.0.0.1:$port]" "$dir/monmap"
    quietly ceph-mon -c "$conf" -i a --mkfs --monmap "$dir/monmap" --keyring "$dir/keyring"
    start mon
}

# Its key goes into the shared keyring, so that daemons and clients look in the same place.
make_osd() {
    local uuid
    uuid=$(cat /proc/sys/kernel/random/uuid)
    quietly ask osd new "$uuid"
    quietly ask auth get-or-create osd.0 mon 'allow profile osd' osd 'allow *' -o "$dir/osd.keyring"
    quietly ceph-authtool "$dir/keyring" --import-keyring "$dir/osd.keyring"
    quietly ceph-osd -c "$conf" -i 0 --mkfs --osd-uuid "$uuid"
    start osd
    in_time 60 "the OSD coming up" osd_is_up
}

make_pool() {
    quietly ask osd pool create "$pool" 8 8 replicated --size 1
    pool_answers "$pool"
}

up() {
    local tool port
    for tool in ceph-mon ceph-osd ceph rados; do
        command -v $tool >/dev/null || fail "$tool is missing; scripts/setup.sh ceph installs it"
    done
    [ ! -e "$conf" ] || fail "there is one in $dir already; \`ceph.sh down $dir\` removes it"
    [ -d "$dir" ] || { mkdir -p "$dir" && chmod 700 "$dir"; }
    mkdir -p "$dir"/{mon,osd,run,log}
    free_ports
    write_conf
    make_keys
    make_monitor
    make_osd
    make_pool
    echo "$conf"
}

# Removes nothing but the files of a cluster that this script has made.
down() {
    [ -e "$conf" ] || return 0
    grep -qxF "mon data = $dir/mon" "$conf" || fail "$conf was not written by this script; nothing was removed"
    finish KILL osd
    finish KILL mon
    rm -rf "$dir"/{mon,osd,run,log} "$dir"/{monmap,keyring,osd.keyring,osd.pid,mon.pid} "$conf"
    rmdir --ignore-fail-on-non-empty "$dir"
}

status() {
    local daemon pid
    [ -e "$conf" ] || fail "nothing in $dir; \`ceph.sh up $dir\` makes it"
    for daemon in mon osd; do
        if pid=$(running $daemon); then echo "$daemon: process $pid"; else echo "$daemon: not running"; fi
    done
    echo "conf: $conf"
    running mon >/dev/null && echo "pools: $(ask osd pool ls | paste -sd ' ')"
}

# --- the command line

store=memstore size=4G pool=esker cephx=no dir=$root/build/ceph
[ $# -gt 0 ] || usage
command=$1
shift
case $command in
stop | kill | start)
    [[ "${1:-}" = osd || "${1:-}" = mon ]] || usage
    daemon=$1
    shift
    ;;
esac
while [ $# -gt 0 ]; do
    case $1 in
    --store) store=$2 && shift ;;
    --size) size=$2 && shift ;;
    --pool) pool=$2 && shift ;;
    --auth) cephx=yes ;;
    -*) usage ;;
    *) dir=$1 ;;
    esac
    shift
done
dir=$(realpath -m "$dir")
conf=$dir/ceph.conf
case $command in
up | down | status) $command ;;
start) start_again "$daemon" ;;
stop) finish TERM "$daemon" ;;
kill) finish KILL "$daemon" ;;
*) usage ;;
esac
