#!/usr/bin/env bash
# Tests a pool over hosts, with the programs that cargo builds for tests (tests/nodes/run.sh).
# environment: ESKER_SEED, the seed of all random choices
set -euo pipefail
cd "$(dirname "$0")/.."

built=${CARGO_TARGET_DIR:-target}/debug
cargo build --quiet -p esker-cli -p esker-preload -p esker-libdaos

# program TEST: the program of a test, as cargo built it.
program() {
    local path
    path=$(cargo test --workspace --test "$1" --no-run 2>&1 | sed -n 's/.*Executable.*(\(.*\))$/\1/p')
    [ -x "$path" ] || { echo "the test '$1' is not built" >&2 && exit 1; }
    realpath "$path"
}

export ESKER ESKER_LIB ESKER_INCLUDE ESKER_OVER_NODES ESKER_REFERENCE
ESKER=$(realpath "$built/esker")
ESKER_LIB=$(realpath -m build/test/lib)
ESKER_INCLUDE=$(realpath include)
scripts/lay-out-library.sh "$built/libdaos.so" "$ESKER_LIB"
ESKER_OVER_NODES=$(program over_nodes)
ESKER_REFERENCE=$(program reference)
tests/nodes/run.sh
