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

# A cluster on loopback for the tests on Ceph, which find it in ESKER_TEST_RADOS and skip with a message without it. It
# ends with this script, whatever happens; what one that was killed left behind is ended first.
cluster=build/test/ceph
start_cluster() {
    local conf
    scripts/ceph.sh down "$cluster" && conf=$(scripts/ceph.sh up "$cluster") &&
        export ESKER_TEST_RADOS="rados:esker?conf=$conf"
}

has_ceph() {
    local tool
    for tool in ceph-mon ceph-osd ceph rados; do
        command -v $tool >/dev/null || return
    done
}

# Without the Python module: the tool that makes wheels builds it with settings of its own.
build() {
    cargo build --quiet --workspace --exclude esker-python && scripts/lay-out-library.sh "$built/libdaos.so" "$ESKER_LIB"
}

# Programs that nobody here wrote, on a file system of ours. Tests of what is not done are left out; docs/semantics.md
# names them.
programs() {
    local dir status
    dir=$(mktemp -d "${1:-/dev/shm}/esker-test.XXXXXX")
    ESKER_POOLS=$dir "$ESKER" pool create programs --size 1G >/dev/null &&
        ESKER_POOLS=$dir "$ESKER" cont create programs fs --type posix >/dev/null &&
        ESKER_POOLS=$dir WITH="$ESKER run programs/fs --" \
            WITHOUT="shared_between_processes walked_by_fts holes_take_no_blocks" tests/programs/run.sh /esker
    status=$?
    rm -rf "$dir"
    return $status
}

# Errnos, one file at random, and random sequences of calls: on a plain directory, under `esker run`, on a mount.
posix() {
    local reference
    reference=$(cargo test --workspace --test reference --no-run 2>&1 | sed -n 's/.*Executable.*(\(.*\))$/\1/p')
    [ -x "$reference" ] || { echo "the test 'reference' is not built" >&2 && return 1; }
    ESKER_REFERENCE=$(realpath "$reference") ESKER_REFERENCE_ROUNDS=40 tests/posix/run.sh
}

suite "build" build
if has_ceph; then
    trap 'scripts/ceph.sh down "$cluster"' EXIT
    suite "a Ceph cluster" start_cluster
else
    echo "--- no tests on Ceph: its packages are missing (scripts/setup.sh ceph)"
    summary+=("skipped  Ceph")
fi
suite "Rust" cargo test --quiet --workspace
for script in tests/abi/run.sh tests/c/*.sh; do
    [ ! -f "$script" ] || suite "$script" bash "$script"
done

# In a folder of its own, so that no wheel for use is replaced by one for tests.
python_package() {
    scripts/wheel.sh build/test/wheels dev && scripts/test-python.sh build/test/wheels
}

suite "files, each way they are reached" posix
suite "Python" python_package
suite "programs under esker run" programs

echo "--- summary"
printf '%s\n' "${summary[@]}"
[ "$failures" = 0 ]
