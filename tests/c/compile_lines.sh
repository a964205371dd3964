#!/usr/bin/env bash
# Builds each program of examples/c by the compile line in its first comment, and runs kv_rate with its defaults on a
# pool on disk.
#
# environment: as for run.sh
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
work=$(mktemp -d)
pools=$(mktemp -d "${TMPDIR:-/tmp}/esker-examples.XXXXXX")
trap 'rm -rf "$work" "$pools"' EXIT
export ESKER_POOLS=$pools LD_LIBRARY_PATH=${ESKER_LIB:-$root/build/test/lib}

# Like the files that `make install` writes.
mkdir "$work/pkgconfig"
tee "$work/pkgconfig/daos.pc" >"$work/pkgconfig/esker.pc" <<TEXT
Name: daos
Description: The DAOS API on Esker
Version: 2
Libs: -L$LD_LIBRARY_PATH -ldaos -luuid
Cflags: -I${ESKER_INCLUDE:-$root/include}
TEXT
export PKG_CONFIG_PATH=$work/pkgconfig

# shellcheck source=tests/checks.sh
. "$here/../checks.sh"

# builds SOURCE: runs its compile line in a copy of examples/c.
builds() {
    local line
    line=$(sed -n 's/^ \* compile: //p' "$1")
    [ "$(wc -l <<<"$line")" -eq 1 ] && [ -n "$line" ] &&
        (cd "$work/c" && bash -euc "$line" && [ -x "$(basename "$1" .c)" ])
}

rates_are_positive() {
    "$work/c/kv_rate" tank rates >"$work/rates" 2>"$work/meanwhile" &&
        grep -Eqx 'puts of 64 bytes: [1-9][0-9]* in [0-9.]+ s, [1-9][0-9]* per second' "$work/rates" &&
        grep -Eqx 'gets of 64 bytes: [1-9][0-9]* in [0-9.]+ s, [1-9][0-9]* per second' "$work/rates"
}

# Enough values for any machine: the time ends the passes.
tells_its_rate_meanwhile() {
    "$work/c/kv_rate" --ops 20000000 --seconds 1 tank rates >"$work/rates" 2>"$work/meanwhile" &&
        grep -Eq '^puts: [1-9][0-9]* so far, [1-9][0-9]* per second$' "$work/meanwhile" &&
        ! grep -q ': 20000000 in' "$work/rates"
}

cp -r "$root/examples/c" "$work/c"
mapfile -t sources < <(grep -l '^ \* compile: .*--libs [a-z]*)' "$root"/examples/c/*.c)
that "all programs have compile lines" [ "${#sources[@]}" -eq "$(ls "$root"/examples/c/*.c | wc -l)" ]
for source in "${sources[@]}"; do
    that "$(basename "$source") builds by its compile line" builds "$source"
done
that "a pool on disk" "${ESKER:?names the command}" pool create tank --size 1G
that "kv_rate measures" rates_are_positive
that "kv_rate tells its rate while it runs" tells_its_rate_meanwhile
summary
