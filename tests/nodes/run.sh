#!/usr/bin/env bash
# A pool over three hosts, which are network namespaces of this machine, used from a fourth: the conformance suite, files,
# fields, MPI, and what happens when engines and the network fail.
#
# environment: ESKER, the command; ESKER_OVER_NODES, the test `over_nodes` of crates/client as cargo built it;
#              ESKER_REFERENCE, the test `reference` of crates/dfs; CC, the C compiler
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

# check WHAT COMMAND...: reports the result, with the output if the command failed.
check() {
    local what=$1
    shift
    if timeout 600 "$@" >"$work/log" 2>&1; then
        echo "ok      $what"
        passed=$((passed + 1))
    else
        echo "FAILED  $what" && sed 's/^/        /' "$work/log"
        failed=$((failed + 1))
    fi
}

# says TEXT COMMAND...: the command fails, and what it prints has the text.
says() {
    local text=$1 printed
    shift
    if printed=$("$@" 2>&1); then
        echo "succeeded: $*" && return 1
    fi
    [[ $printed == *"$text"* ]] || { echo "$printed" && return 1; }
}

# prints TEXT COMMAND...: the command succeeds, and what it prints has the text.
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

engine_of() {
    on "$1" sh -c 'for at in /proc/[0-9]*; do
        [ "$(readlink $at/ns/net)" = "$(readlink /proc/self/ns/net)" ] && tr "\0" " " <$at/cmdline | grep -q " engine run" &&
            echo ${at#/proc/}
    done 2>/dev/null'
}

# A client's host has nothing but the map.
carry_map() {
    on h1 cat "$dir/tank.map" >"$work/tank.map" && on h4 sh -c "mkdir -p $dir && umask 077 && cat >$dir/tank.map" <"$work/tank.map"
}

create_pool() {
    esker_on h1 pool create tank --size 400M --targets 2 --hosts h1,h2,h3 --launcher ssh --dir $dir
}

values_come_back() {
    esker_on h4 cont create tank values &&
        esker_on h4 kv put tank/values first key from-h4 &&
        prints from-h4 esker_on h2 kv get tank/values first key
}

hosts_up 4
check "a pool over three hosts is created" create_pool
check "the map is carried to a fourth" carry_map
for host in h1 h2 h3; do
    check "$host is listed" prints "$host" esker_on h4 pool query tank
done
check "what one host puts, another gets" values_come_back
[ -z "${ESKER_OVER_NODES:-}" ] ||
    check "the conformance suite" on h4 env ESKER_TEST_NODES="nodes:$dir/tank.map" "$ESKER_OVER_NODES" the_pool_of_the_environment
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
