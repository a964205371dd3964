#!/usr/bin/env bash
# Runs every test and sums up. Those in C find what they test in ESKER, ESKER_LIB and ESKER_INCLUDE.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

built=${CARGO_TARGET_DIR:-target}/debug
export ESKER ESKER_LIB ESKER_INCLUDE LIBDAOS
ESKER=$(realpath -m "$built/esker")
ESKER_LIB=$(realpath -m build/test/lib)
ESKER_INCLUDE=$(realpath -m include)
LIBDAOS=$ESKER_LIB/libdaos.so.2

summary=() failures=0

# suite NAME COMMAND...: a suite that fails does not keep the others from running.
suite() {
    local name=$1 start=$SECONDS outcome=passed
    shift
    echo "--- $name"
    "$@" || { outcome=FAILED && failures=$((failures + 1)); }
    summary+=("$outcome  $((SECONDS - start)) s  $name")
}

build() {
    cargo build --quiet --workspace && scripts/lay-out-library.sh "$built/libdaos.so" "$ESKER_LIB"
}

suite "build" build
suite "Rust" cargo test --quiet --workspace
for script in tests/abi/run.sh tests/c/*.sh; do
    [ ! -f "$script" ] || suite "$script" bash "$script"
done

echo "--- summary"
printf '%s\n' "${summary[@]}"
[ "$failures" = 0 ]
