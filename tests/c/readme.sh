#!/usr/bin/env bash
# Runs what README.md shows: the shell commands unchanged, and the program that contains its C lines.
#
# environment: as for run.sh
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir bin
ln -s "${ESKER:?names the command}" bin/esker
ln -s "$(dirname "$ESKER")/libesker_preload.so" bin/
export PATH=$work/bin:$PATH HOME=$work XDG_DATA_HOME=$work LD_LIBRARY_PATH=${ESKER_LIB:-$root/build/test/lib}
unset ESKER_POOLS

# The indented commands below "From the shell".
# The server is stopped once it has printed its address, and must end with success.
sed -n '/^From the shell/,/^From Python/s/^    //p' "$root/README.md" |
    sed 's/--size 4G/--size 1G/; s/--new-key &/--new-key --listen localhost:0 >served \&/
        s/^kill %1.*/until grep -qs http served; do kill -0 %1; done; kill %1; wait %1/' >commands
[ "$(wc -l <commands)" -ge 5 ]
echo field >field.grib
bash -e commands </dev/null >/dev/null
[ "$(esker kv get tank run1 index t2m)" = 2.1 ]

# The C lines of README.md are those of the example, which must compile and run.
awk '/^```/ { inside = $0 == "```c"; next } inside' "$root/README.md" >lines
[ "$(wc -l <lines)" -ge 5 ]
grep -Fx -f lines "$root/examples/c/first.c" | cmp - lines
"${CC:-cc}" -Wall -Wextra -Werror -I"${ESKER_INCLUDE:-$root/include}" -o first "$root/examples/c/first.c" \
    -L"$LD_LIBRARY_PATH" -ldaos -luuid
[ "$(./first)" = "t2m = 2.1" ]
if ESKER_POOLS=$work/none ./first 2>refused; then exit 1; fi
grep -q "tank/run1: " refused

echo "3 passed, 0 failed"
