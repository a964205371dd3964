#!/usr/bin/env bash
# Stores GRIB fields with an index from a C program and reads them back from another process.
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

say "building the example with include/daos.h and libdaos"
scripts/lay-out-library.sh "$libdaos" build/demo/lib
cc -O2 -Wall -Iinclude examples/c/fields.c -o build/demo/fields -Lbuild/demo/lib -ldaos -luuid
export LD_LIBRARY_PATH=$PWD/build/demo/lib ESKER_POOLS=$work

say "creating a pool of 1 GiB in $work"
"$esker" pool create demo --dir "$work" --size 1G

say "writing the fields of ${#files[@]} files"
build/demo/fields write demo "${files[@]}"

say "reading them back in another process"
build/demo/fields read demo "${files[@]}"
