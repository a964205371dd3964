#!/usr/bin/env bash
# Tests a pool over hosts, with the programs that cargo builds for tests (tests/nodes/run.sh).
# environment: ESKER_SEED, the seed of all random choices
set -euo pipefail
cd "$(dirname "$0")/.."

built=${CARGO_TARGET_DIR:-target}/debug
cargo build-for-tests --quiet

tests=(client-over_nodes dfs-check dfs-killed dfs-namespace dfs-reference dfs-transfer fields-check fields-killed fields-levels
    fields-model fields-moment fields-moves fields-omitted fields-store fields-together fields-watch
    tensors-killed tensors-model tensors-slabs tensors-store)
targets=()
for test in "${tests[@]}"; do
    targets+=(--test "${test#*-}")
done
programs=$(cargo test --quiet --workspace "${targets[@]}" --no-run --message-format json)

# program CRATE-TEST: the program of a test, as cargo built it.
program() {
    local path
    path=$(sed -n 's/.*crates\/'"${1%%-*}"'\/tests\/'"${1#*-}"'[./].*"executable":"\([^"]*\)".*/\1/p' <<<"$programs")
    [ -x "$path" ] || { echo "the test '$1' is not built" >&2 && exit 1; }
    realpath "$path"
}

export ESKER ESKER_LIB ESKER_INCLUDE ESKER_OVER_NODES ESKER_REFERENCE ESKER_SUITES ESKER_PYTHON=
ESKER=$(realpath "$built/esker")
ESKER_LIB=$(realpath -m build/test/lib)
ESKER_INCLUDE=$(realpath include)
scripts/lay-out-library.sh "$built/libdaos.so" "$ESKER_LIB"
ESKER_OVER_NODES=$(program client-over_nodes)
ESKER_REFERENCE=$(program dfs-reference)
ESKER_SUITES=$(realpath -m build/test/nodes)
rm -rf "$ESKER_SUITES"
mkdir -p "$ESKER_SUITES"
for test in "${tests[@]:1}"; do
    ln -s "$(program "$test")" "$ESKER_SUITES/$test"
done
# The suite "Python" of `make test` installs the package there.
python=$PWD/build/test/python/bin/python
! "$python" -c "import esker, pytest" 2>/dev/null || ESKER_PYTHON=$python
tests/nodes/run.sh
