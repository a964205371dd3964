#!/usr/bin/env bash
# Archives a forecast from Python, lists its axes, retrieves some of it and draws a map; archives and retrieves GRIB files
# by key; then a C program stores their fields with an index and another process reads them.
# usage: demo.sh ESKER LIBDAOS [FILE...]; without files, the samples of ecCodes
set -euo pipefail
cd "$(dirname "$0")/.."
esker=$1 libdaos=$2
shift 2
files=("$@")
[ $# -gt 0 ] || mapfile -t files < <(scripts/samples.sh)

# Memory where there is room for the pool, else wherever temporary files go.
room_kib=$((1536 * 1024))
roomy() {
    [ -w "$1" ] && [ "$(df -k --output=avail "$1" | tail -n 1)" -gt $room_kib ]
}
place=/dev/shm
roomy $place || place=${TMPDIR:-/tmp}
work=$(mktemp -d "$place/esker-demo.XXXXXX")
trap 'rm -rf "$work"' EXIT

say() {
    echo "--- $*"
}

say "creating a pool of 1 GiB in $work"
export ESKER_POOLS=$work ESKER_FIELDS=demo/archive
"$esker" pool create demo --dir "$work" --size 1G

say "a forecast from Python: archived step by step, its axes, a request, xarray, and a map"
tools=build/python/bin
"$tools/python" -m venv --clear --without-pip build/demo/python
"$tools/pip" --python build/demo/python/bin/python install --quiet --disable-pip-version-check \
    --constraint python/requirements.txt xarray matplotlib build/demo/wheels/esker-*.whl
build/demo/python/bin/python examples/python/forecast.py demo/forecast build/demo/map.png 0.25

say "archiving the fields of ${#files[@]} files by the keys that their GRIB messages bring"
"$esker" fields archive "${files[@]}" || say "what is said above could not be archived, the rest was"
"$esker" fields status

say "the axes of what is there"
"$esker" fields axes

say "retrieving all of it by a MARS request, in the order of its axes"
"$esker" fields retrieve class=all,date=all,step=all,param=all -o "$work/retrieved.grib"

say "building the example with include/daos.h and libdaos"
scripts/lay-out-library.sh "$libdaos" build/demo/lib
cc -O2 -Wall -Iinclude examples/c/fields.c -o build/demo/fields -Lbuild/demo/lib -ldaos -luuid
export LD_LIBRARY_PATH=$PWD/build/demo/lib

say "writing the fields of ${#files[@]} files"
build/demo/fields write --repeat 20 demo fields "${files[@]}" | tee "$work/written"

say "reading them back in another process"
build/demo/fields read --repeat 20 demo fields "${files[@]}" | tee "$work/read"

# Lines of the example: WHAT: N fields, B MiB, R MiB/s, F fields/s
mean_bytes=$(tail -n 1 "$work/written" | sed 's/.*: //' | awk '{printf "%d", $3 * 1048576 / $1}')
say "what the medium itself gives for blocks of $mean_bytes bytes, the mean size of a field"
"$esker" bench limit --path "$work" --size "$mean_bytes" --procs 1 | tee "$work/limit"

ratio() {
    local rate limit
    rate=$(tail -n 1 "$work/$1" | sed 's/.*: //' | awk '{print $5}')
    limit=$(awk -v phase="$2" '$1 == "limit" && $2 == phase {print $7}' "$work/limit")
    awk -v what="$1" -v phase="$2" -v rate="$rate" -v limit="$limit" \
        'BEGIN {printf "%s: %.2f of the limit (%s MiB/s; %s %s MiB/s)\n", what, rate / limit, rate, phase, limit}'
}
say "each field with its Array, its place in the index, checksums, and a comparison when read"
ratio written pwrite
ratio read pread
