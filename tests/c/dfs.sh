#!/usr/bin/env bash
# Builds the C programs in the directory dfs with the library under the names that file system clients use, and runs
# each on a pool. With DAOS_INCLUDE, compiles them against the genuine headers as well.
#
# environment: ESKER, the command; ESKER_LIB, the directory of the library; ESKER_INCLUDE, that of the headers;
#              DAOS_INCLUDE, that of the genuine DAOS headers; CC.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
ours=${ESKER_INCLUDE:-$root/include}
library=${ESKER_LIB:-$root/build/test/lib}
base=/dev/shm
[ -w $base ] || base=${TMPDIR:-/tmp}
work=$(mktemp -d "$base/esker-dfs.XXXXXX")
trap 'rm -rf "$work"' EXIT
export LD_LIBRARY_PATH=$library${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
"${ESKER:?names the command}" pool create test --dir "$work" --size 512M >/dev/null || exit 1

# run PROGRAM HEADERS FLAGS...
run() {
    local name=$1 headers=$2
    shift 2
    "${CC:-cc}" -std=gnu11 -O1 -g "$@" -I"$headers" -I"$here" -o "$work/$name" "$here/dfs/$name.c" \
        -L"$library" -ldfs -lduns -ldaos -luuid && timeout 600 "$work/$name" "esker:$work/test" "$work"
}

passed=0 failed=0
for source in "$here"/dfs/*.c; do
    name=$(basename "$source" .c)
    for headers in "$ours" ${DAOS_INCLUDE:+"$DAOS_INCLUDE"}; do
        strict=(-Wall -Wextra -Werror)
        [ "$headers" = "$ours" ] || strict=(-w)
        if run "$name" "$headers" "${strict[@]}"; then
            passed=$((passed + 1))
        else
            echo "FAILED: $name, compiled with $headers"
            failed=$((failed + 1))
        fi
    done
done
"$ESKER" pool check "esker:$work/test" || failed=$((failed + 1))
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
