#!/usr/bin/env bash
# Runs the programs of this directory on an Esker file system, for each way of accessing files.
#
# usage: run.sh [WAY...]
#   WAY  memory, a plain directory, which shows that Linux passes; run, under `esker run`;
#        mount-device and mount-io_uring, on a mount with that transport; default: all four. mount, on a mount with
#        the default transport; container, under `esker run` in ESKER_POSIX_CONTAINER
#
# environment: ESKER, the command; CC, the C compiler; ESKER_POSIX_ROUNDS, the rounds of fsx (default 3);
#              ESKER_SEED, the seed of all random choices (default 1); ESKER_REFERENCE, the test `reference` of
#              crates/dfs as cargo built it: if it is set, random sequences of operations are compared with a
#              directory in memory too; ESKER_POSIX_CALLS, the sequences of `calls` (default 300)
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
: "${ESKER:?names the command}"
work=$(mktemp -d /dev/shm/esker-posix.XXXXXX)
mount=$work/mount
trap '"$ESKER" umount "$mount" >/dev/null 2>&1; rm -rf --one-file-system "$work"' EXIT
others=() passed=0 failed=0 skipped=0 seed=${ESKER_SEED:-1}

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

skip() {
    echo "skipped $1"
    skipped=$((skipped + 1))
}

# on NAME DIR [COMMAND...]: runs all programs in a directory, started by the command.
on() {
    local name=$1 dir=$2 round
    shift 2
    check "$name: errnos" "$@" "$work/errnos" "$dir"
    for ((round = 0; round < ${ESKER_POSIX_ROUNDS:-3}; round++)); do
        check "$name: fsx" "$@" "$work/fsx" "$dir" $((seed + round))
    done
    [ -z "${ESKER_REFERENCE:-}" ] || check "$name: sequences" env ESKER_REFERENCE_DIR="$dir" \
        ESKER_REFERENCE_WRAP="$*" "$ESKER_REFERENCE" the_directory_of_the_environment
}

# Arguments of `sh -c`: runs a command on the files of a new pool.
# shellcheck disable=SC2016 # the shell of the command expands it
in_new_pool='export ESKER_POOLS=/dev/shm
/build/esker pool create pool --size 256M >/dev/null && /build/esker cont create pool tree --type posix >/dev/null &&
    exec /build/esker run pool/tree -- "$@"'

has_ring() {
    grep -q Y /sys/module/fuse/parameters/enable_uring 2>/dev/null
}

# calls NAME DIR [OPTION...] -- [COMMAND...]: compares random calls in a directory with those in a plain one, where they
# can do no harm.
calls() {
    local name=$1 dir=$2
    shift 2
    "$here/confined.sh" true >/dev/null 2>&1 || { skip "$name: calls: namespaces are not allowed" && return; }
    check "$name: calls" "$here/confined.sh" --show "$work/programs" /programs "$@" \
        /programs/calls "$dir" "$seed" "${ESKER_POSIX_CALLS:-300}"
}

way() {
    case $1 in
        memory)
            mkdir "$work/plain" && on memory "$work/plain"
            check "memory: pages" "$work/pages" "$work/plain"
            calls memory /other --
            ;;
        run)
            WITHOUT=set_ids on run /esker "$ESKER" run "esker:$work/pool/tree" --
            calls run /esker --show "$(dirname "$ESKER")" /build -- sh -c "$in_new_pool" sh
            ;;
        container) WITHOUT=set_ids on container /esker "$ESKER" run "$ESKER_POSIX_CONTAINER" -- ;;
        mount | mount-device | mount-io_uring)
            [ -w /dev/fuse ] || { skip "mount: /dev/fuse is missing" && return; }
            command -v fusermount3 >/dev/null || { skip "mount: fusermount3 is missing" && return; }
            # On it, root can become other users.
            others=()
            [ "$(id -u)" != 0 ] || others=(--allow-other)
            [ "$1" != mount-io_uring ] || has_ring || { skip "$1: the kernel has no FUSE over io_uring" && return; }
            [ "$1" = mount ] || others+=(--transport "${1#mount-}")
            mkdir -p "$mount" && check "$1" "$ESKER" mount "esker:$work/pool/tree" "$mount" "${others[@]}" || return
            on "$1" "$mount"
            check "$1: pages" "$work/pages" "$mount"
            [ -d "$mount/calls" ] || mkdir -m 755 "$mount/calls"
            calls "$1" /mount --lend "$mount/calls" /mount --
            check "$1: umount" "$ESKER" umount "$mount"
            ;;
        *) echo "no such way: $1" >&2 && exit 2 ;;
    esac
}

mkdir "$work/programs"
for program in errnos fsx pages programs/calls; do
    "${CC:-cc}" -std=gnu11 -O1 -g -Wall -Wextra -Werror -pthread -o "$work/$program" "$here/${program##*/}.c" || exit 1
done
"$ESKER" pool create pool --dir "$work" --size 512M >/dev/null || exit 1
"$ESKER" cont create "esker:$work/pool" tree --type posix >/dev/null || exit 1
ways=("$@")
[ $# -gt 0 ] || ways=(memory run mount-device mount-io_uring)
for name in "${ways[@]}"; do
    way "$name"
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
