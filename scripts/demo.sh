#!/usr/bin/env bash
# Archives weather of ECMWF from Python, lists its axes, retrieves part of it and draws maps and a time series. Archives its
# ensemble on two nodes of a pool and draws it on a third. Archives and retrieves GRIB files by key and draws maps of them.
# Then a C program archives their fields in a store of its own, and another process reads them. Then Field I/O runs on a
# local pool and, if its packages are installed, on Ceph.
# usage: demo.sh ESKER LIBDAOS [FILE or FOLDER...]; default: the files of scripts/weather.sh, or without them, of ecCodes
set -euo pipefail
cd "$(dirname "$0")/.."
esker=$1 libdaos=$2
shift 2
weather=build/weather
has_weather() {
    [ -e $weather/requirements.txt ]
}
find_files() {
    if [ $# -gt 0 ]; then find -L "$@" -type f | sort; elif has_weather; then ls $weather/*.grib; else scripts/samples.sh; fi
}
mapfile -t files < <(find_files "$@")
[ ${#files[@]} -gt 0 ] || { echo "demo.sh: no files in: $*" >&2 && exit 2; }

# The fields of the files are stored by key, by the C example (which replaces them), and in a file.
files_mib=$(($(cat "${files[@]}" | wc -c) >> 20))
pool_mib=$((1024 + 4 * files_mib))
room_kib=$(((pool_mib + files_mib + 512) * 1024))
repeat=20
[ $files_mib -lt 256 ] || repeat=2

# In memory if there is room for the pool, else in the directory for temporary files.
roomy() {
    [ -w "$1" ] && [ "$(df -k --output=avail "$1" | tail -n 1)" -gt $room_kib ]
}
place=/dev/shm
roomy $place || place=${TMPDIR:-/tmp}
work=$(mktemp -d "$place/esker-demo.XXXXXX")
# Removes all parts, also if some are already gone.
clean_up() {
    ESKER_POOLS=$work "$esker" pool destroy --force job || true
    scripts/ceph.sh down "$work/ceph" || true
    rm -rf "$work"
}
trap 'clean_up >/dev/null 2>&1' EXIT

say() {
    echo "--- $*"
}

say "creating a pool of $pool_mib MiB in $work"
export ESKER_POOLS=$work ESKER_FIELDS=demo/archive
"$esker" pool create demo --dir "$work" --size ${pool_mib}M

# Python's packages are installed again only if the wheel or their versions have changed: later runs need no network.
make_environment() {
    local tools=build/python/bin made
    made=$(cat build/demo/wheels/esker-*.whl python/requirements.txt | sha256sum)
    [ "$made" != "$(cat build/demo/python/made 2>/dev/null)" ] || return 0
    "$tools/python" -m venv --clear --without-pip build/demo/python
    "$tools/pip" --python build/demo/python/bin/python install --quiet --disable-pip-version-check \
        --constraint python/requirements.txt xarray matplotlib build/demo/wheels/esker-*.whl
    echo "$made" >build/demo/python/made
}
make_environment
python=build/demo/python/bin/python

if has_weather; then
    say "weather from Python: ERA5 archived, its axes, a request, xarray, maps and a time series"
    $python examples/python/weather.py demo/weather $weather build/demo/weather.png
    halves=(0/to/4 5/to/9)
else
    say "no weather, because scripts/weather.sh has not fetched it: an idealised wave, computed, takes its place"
    $python examples/python/forecast.py demo/weather build/demo/weather.png 0.25
    halves=(1 2)
fi

say "a pool over three nodes, all on this machine: two archive members of an ensemble, the third reads all and draws them"
"$esker" pool create job --dir "$work" --size 128M --launcher local --nodes 3
ESKER_NODE=localhost.0 $python examples/python/ensemble.py archive job/ensemble demo/weather "${halves[0]}" &
ESKER_NODE=localhost.1 $python examples/python/ensemble.py archive job/ensemble demo/weather "${halves[1]}"
wait $!
ESKER_NODE=localhost.2 $python examples/python/ensemble.py draw job/ensemble build/demo/ensemble.png
"$esker" pool query job
"$esker" pool destroy --recursive job

say "archiving the fields of ${#files[@]} files by the keys of their GRIB messages"
"$esker" fields archive "${files[@]}" || say "the messages reported above could not be archived; all others were"
"$esker" fields status

say "the axes of the store"
"$esker" fields axes

say "retrieving all of it by a MARS request, in the order of its axes"
"$esker" fields retrieve class=all,date=all,step=all,param=all -o "$work/retrieved.grib"

say "each parameter in xarray, and a map of the first field of some"
$python examples/python/maps.py demo/archive build/demo/maps.png

say "building the example with include/esker.h and libdaos"
scripts/lay-out-library.sh "$libdaos" build/demo/lib
cc -O2 -Wall -Iinclude examples/c/fields.c -o build/demo/fields -Lbuild/demo/lib -ldaos -luuid
export LD_LIBRARY_PATH=$PWD/build/demo/lib

say "writing the fields of ${#files[@]} files"
build/demo/fields write --repeat $repeat demo fields "${files[@]}" | tee "$work/written"

say "reading them back in another process"
build/demo/fields read --repeat $repeat demo fields "${files[@]}" | tee "$work/read"

# Lines of the example: WHAT: N fields, B MiB, R MiB/s, F fields/s
mean_bytes=$(tail -n 1 "$work/written" | sed 's/.*: //' | awk '{printf "%d", $3 * 1048576 / $1}')
say "the limit of the medium for blocks of $mean_bytes bytes, the mean size of a field"
"$esker" bench limit --path "$work" --size "$mean_bytes" --procs 1 | tee "$work/limit"

ratio() {
    local rate limit
    rate=$(tail -n 1 "$work/$1" | sed 's/.*: //' | awk '{print $5}')
    limit=$(awk -v phase="$2" '$1 == "limit" && $2 == phase {print $7}' "$work/limit")
    awk -v what="$1" -v phase="$2" -v rate="$rate" -v limit="$limit" \
        'BEGIN {printf "%s: %.2f of the limit (%s MiB/s; %s %s MiB/s)\n", what, rate / limit, rate, phase, limit}'
}
say "each field by its key, with checksums, and a comparison when read"
ratio written pwrite
ratio read pread

say "Field I/O on a local pool and on Ceph: one monitor and one OSD in memory, on loopback"
if ! command -v ceph-osd >/dev/null; then
    say "skipped: Ceph is not installed (scripts/setup.sh ceph installs it)"
elif conf=$(scripts/ceph.sh up --size 2G "$work/ceph"); then
    "$esker" bench compare --workload field-io --mode no-containers --path "$work" --ops 50 --rounds 2 \
        --stores "native,rados:esker?conf=$conf"
else
    say "skipped: Ceph did not start"
fi
