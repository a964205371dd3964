#!/usr/bin/env bash
# Builds the C programs of this directory with the library and runs each on a pool.
#
# environment: ESKER, the command; ESKER_LIB, the directory of the library; ESKER_INCLUDE, that of the
#              headers; ESKER_TEST_POOL, a pool to use instead of a new one; CC.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
include=${ESKER_INCLUDE:-$root/include}
library=${ESKER_LIB:-$root/build/test/lib}
work=$(mktemp -d)
trap 'rm -rf "$work" ${parent:+"$parent"}' EXIT

# A pool in memory if there is enough space, otherwise in the directory for temporary files.
make_pool() {
    local base=/dev/shm
    [ -w $base ] && [ "$(df -k --output=avail $base | tail -n 1)" -gt 1000000 ] || base=${TMPDIR:-/tmp}
    parent=$(mktemp -d "$base/esker-c.XXXXXX") || exit 1
    "${ESKER:?names the command}" pool create test --dir "$parent" --size 512M >/dev/null || exit 1
    pool=esker:$parent/test
    export ESKER_POOLS=$parent
}

pool=${ESKER_TEST_POOL:-}
[ -n "$pool" ] || make_pool
export LD_LIBRARY_PATH=$library${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

passed=0
failed=0
for source in "$here"/*.c; do
    name=$(basename "$source" .c)
    if "${CC:-cc}" -std=gnu11 -O1 -g -Wall -Wextra -Werror -I"$include" -o "$work/$name" "$source" \
        -L"$library" -ldaos -luuid && timeout 600 "$work/$name" "$pool"; then
        passed=$((passed + 1))
    else
        echo "FAILED: $name"
        failed=$((failed + 1))
    fi
done

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
