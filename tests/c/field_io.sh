#!/usr/bin/env bash
# Runs ECMWF's Field I/O, unmodified, in its three builds, on a native pool and on a posix pool: 4 processes write
# fields concurrently, 4 read them, and every Array is compared with what was written.
#
# environment: FIELD_IO_SRC, a checkout of ecmwf-projects/daos-tests (if unset, nothing is run);
#              DAOS_INCLUDE, the genuine DAOS headers, to compile against them as well; ESKER, the command;
#              ESKER_LIB, the directory of the library; ESKER_INCLUDE, that of the headers; CC.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
if [ -z "${FIELD_IO_SRC:-}" ]; then
    echo "skipped: FIELD_IO_SRC is not a checkout of Field I/O"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
library=${ESKER_LIB:-$here/../../build/test/lib}
ours=${ESKER_INCLUDE:-$here/../../include}
base=/dev/shm
[ -w $base ] || base=${TMPDIR:-/tmp}
work=$(mktemp -d "$base/esker-field-io.XXXXXX")
trap 'rm -rf "$work"' EXIT
export LD_LIBRARY_PATH=$library${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} ESKER_POOLS=$work
fields=50
# shellcheck source-path=SCRIPTDIR source=field_io/build.sh
source "$here/field_io/build.sh"

index() { echo "{\"class\":\"od\",\"date\":\"2026010$1\"}"; }

# four MODE TOOL ARGUMENT...: starts four processes, each with its index; waits for all.
four() {
    local mode=$1 tool=$2 pids=() failed=0
    shift 2
    for process in 0 1 2 3; do
        "$work/$mode/$tool" tank c1 "$(index $process)" '{"param":"t"}' "${@//PROCESS/$process}" \
            >"$work/$mode/$tool.$process" 2>&1 &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
    [ $failed = 0 ] || { cat "$work/$mode/$tool".*; return 1; }
}

# Compares the Arrays of the posix pool: one page of header, then the bytes.
equal_files() {
    local array count=0
    for array in "$work"/tank/containers/*/0b*; do
        tail -c +4097 "$array" | cmp - "$work/field"
        count=$((count + 1))
    done
    echo "$count Arrays are equal"
    [ $count = $((4 * fields)) ]
}

# run MODE KIND: on a native pool, or on a posix pool.
run() {
    local mode=$1
    case $2 in
    native) "$ESKER" pool create tank --dir "$work" --size 512M >/dev/null ;;
    posix) "$ESKER" pool create "posix:$work/tank" >/dev/null ;;
    esac
    "$ESKER" cont create tank c1 >/dev/null
    four "$mode" write "$work/field" 1 $fields 1 $fields 0 0 0 PROCESS 0
    four "$mode" read "$work/unused" $fields 1 $fields 0 0 0 PROCESS 1 0
    case $2 in
    native) "$work/equal" tank "$work/field" ;;
    posix) equal_files ;;
    esac
    "$ESKER" pool check tank
    "$ESKER" pool destroy --recursive tank >/dev/null
}

head -c 1048576 /dev/urandom >"$work/field"
"${CC:-cc}" -O2 -Wall -I"$ours" "$here/field_io/equal.c" -o "$work/equal" -L"$library" -ldaos -luuid
passed=0
for headers in "$ours" ${DAOS_INCLUDE:+"$DAOS_INCLUDE"}; do
    for mode in full no-containers arrays; do
        ESKER_LIB=$library build_field_io $mode "$headers" S1 "$work/$mode"
        for kind in native posix; do
            echo "Field I/O, $mode, $kind, compiled with $headers"
            run $mode $kind
            passed=$((passed + 1))
        done
    done
done
echo "$passed passed, 0 failed"
