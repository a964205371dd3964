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

# Programs that nobody here wrote, on a file system of ours. What fails today is left out, and named in docs/semantics.md.
programs() {
    local known=() dir name status
    for name in tests/programs/*.sh tests/programs/*.py tests/programs/*.c; do
        name=$(basename "${name%.*}")
        case $name in run | lib | attributes | dirs | maps | sizes | fio | mpi) ;; *) known+=("$name") ;; esac
    done
    dir=$(mktemp -d "${1:-/dev/shm}/esker-test.XXXXXX")
    ESKER_POOLS=$dir "$ESKER" pool create programs --size 1G >/dev/null &&
        ESKER_POOLS=$dir "$ESKER" cont create programs fs --type posix >/dev/null &&
        ESKER_POOLS=$dir ESKER_LIB=$(dirname "$ESKER") WITH="$ESKER run --pool programs --cont fs --" tests/programs/run.sh /esker "${known[@]}"
    status=$?
    rm -rf "$dir"
    return $status
}

suite "build" build
suite "Rust" cargo test --quiet --workspace
for script in tests/abi/run.sh tests/c/*.sh; do
    [ ! -f "$script" ] || suite "$script" bash "$script"
done

suite "programs under esker run" programs

echo "--- summary"
printf '%s\n' "${summary[@]}"
[ "$failures" = 0 ]
