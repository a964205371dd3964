#!/usr/bin/env bash
# Runs every test and prints a summary. ESKER, ESKER_LIB and ESKER_INCLUDE tell the C tests what to test.
# ESKER_TEST_REQUIRE lists what must not be missing (ceph, slurm, fuse), so that no tests are skipped for lack of it.
# usage: test.sh [SUITE...]
#   SUITE  models, rust, c, files, python, s3, nodes, fabric, programs, or ceph, which is a part of rust; default: all
set -uo pipefail
cd "$(dirname "$0")/.." || exit
suites=(models rust c files python s3 nodes fabric programs)
[ $# -gt 0 ] || set -- "${suites[@]}"
selected=("$@")
for name in "${selected[@]}"; do
    [[ " ${suites[*]} ceph " == *" $name "* ]] || { echo "test.sh: no such suite: $name" >&2 && exit 2; }
done

built=${CARGO_TARGET_DIR:-target}/debug
export ESKER ESKER_LIB ESKER_INCLUDE LIBDAOS
ESKER=$(realpath -m "$built/esker")
ESKER_LIB=$(realpath -m build/test/lib)
ESKER_INCLUDE=$(realpath -m include)
LIBDAOS=$ESKER_LIB/libdaos.so.2

mkdir -p build
exec {lock}>>build/test.lock
flock -n $lock || { echo "test.sh: the tests of this checkout run already; use another clone" >&2 && exit 1; }

summary=() failures=0 passed=0 failed=0 skipped=0
logs=build/test/logs
rm -rf "$logs"
mkdir -p "$logs"
# Skipped Rust tests record themselves there, because cargo counts them as passed.
export ESKER_TEST_SKIPPED
ESKER_TEST_SKIPPED=$(realpath -m "$logs/skipped")

# counts LOG: the numbers of passed, failed and skipped tests, from the summaries of cargo, pytest and our scripts.
counts() {
    tr -d ',;' <"$1" | awk '
        /^test result: |^[0-9]+ (passed|failed|skipped|errors?)( |$)/ {
            for (at = 1; at < NF; at++) if ($at ~ /^[0-9]+$/) count[$(at + 1)] += $at
        }
        END { print count["passed"] + 0, count["failed"] + count["error"] + count["errors"],
                    count["skipped"] + count["ignored"] }'
}

# is_selected SUITE
is_selected() {
    [[ " ${selected[*]} " == *" $1 "* ]]
}

# suite SUITE NAME COMMAND...: runs a part of a suite if it is selected; a part that fails does not stop the others.
suite() {
    is_selected "$1" || return 0
    shift
    run "$@"
}

# run NAME COMMAND...
run() {
    local name=$1 start=$SECONDS outcome=passed log good bad left noted
    shift
    log=$logs/${#summary[@]}.log
    : >"$ESKER_TEST_SKIPPED"
    echo "--- $name"
    "$@" {lock}>&- 2>&1 | tee "$log" || outcome=FAILED
    read -r good bad left < <(counts "$log")
    noted=$(wc -l <"$ESKER_TEST_SKIPPED")
    good=$((good - noted)) left=$((left + noted))
    # A command may report failed tests and end with status 0, or fail without a report.
    [ "$bad" = 0 ] || outcome=FAILED
    [ "$outcome" = passed ] || [ "$bad" -gt 0 ] || bad=1
    [ "$outcome" = passed ] || failures=$((failures + 1))
    passed=$((passed + good)) failed=$((failed + bad)) skipped=$((skipped + left))
    summary+=("$outcome  $((SECONDS - start)) s  $name: $good passed, $bad failed, $left skipped")
}

# A cluster on loopback for the tests on Ceph, which find it in ESKER_TEST_RADOS and are skipped with a message without
# it. It always ends with this script; the remains of a killed run are removed first. It is not a suite, because its
# daemons would keep the suite's pipe open.
cluster=build/test/ceph
start_cluster() {
    local conf
    scripts/ceph.sh down "$cluster" && conf=$(scripts/ceph.sh up "$cluster" {lock}>&-) &&
        export ESKER_TEST_RADOS="rados:esker?conf=$conf"
}

has_ceph() {
    local tool
    for tool in ceph-mon ceph-osd ceph rados; do
        command -v $tool >/dev/null || return
    done
}

has_slurm() {
    PATH=$PATH:/usr/sbin command -v slurmctld >/dev/null
}

has_fuse() {
    [ -w /dev/fuse ] && command -v fusermount3 >/dev/null
}

for name in ${ESKER_TEST_REQUIRE:-}; do
    "has_$name" || { echo "test.sh: $name is missing, and ESKER_TEST_REQUIRE asks for it" >&2 && exit 1; }
done

# Code that threads and processes share without locks, in every interleaving with at most two preemptions.
models() {
    RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=2 cargo test --quiet --release \
        --target-dir "${CARGO_TARGET_DIR:-target}/loom" -p esker-store --lib models::
}

# Without the Python module, which maturin builds with settings of its own.
build() {
    cargo build-for-tests --quiet && scripts/lay-out-library.sh "$built/libdaos.so" "$ESKER_LIB"
}

# Third-party programs on an Esker file system. Tests of unsupported features are left out; docs/semantics.md lists
# them.
run_programs() {
    local source=$1
    shift
    LOGS=$PWD/$logs/programs WITH="$ESKER run $source --" WITHOUT="walked_by_fts holes_take_no_blocks" \
        tests/programs/run.sh /esker "$@"
}

# In a subshell of its own, so that its pool is removed even if it is interrupted.
# shellcheck disable=SC2030,SC2031
programs() (
    dir=$(mktemp -d "${1:-/dev/shm}/esker-test.XXXXXX")
    trap 'rm -rf "$dir"' EXIT
    trap 'exit 1' INT TERM HUP
    export ESKER_POOLS=$dir
    "$ESKER" pool create programs --size 1G >/dev/null &&
        "$ESKER" cont create programs fs --type posix >/dev/null &&
        run_programs programs/fs
)

# All their calls go through an engine, as on a host outside the pool.
# shellcheck disable=SC2030,SC2031
programs_over_nodes() (
    dir=$(mktemp -d /dev/shm/esker-test.XXXXXX)
    trap '"$ESKER" pool destroy --force "nodes:$dir/programs.map"; rm -rf "$dir"' EXIT
    trap 'exit 1' INT TERM HUP
    export ESKER_POOLS=$dir ESKER_NODE=none
    "$ESKER" pool create programs --dir "$dir" --size 512M --targets 2 --launcher local --nodes 1 >/dev/null &&
        "$ESKER" cont create "nodes:$dir/programs.map/fs" --type posix >/dev/null &&
        run_programs "nodes:$dir/programs.map/fs" inherit locks shell exec stdio transfers dirs names coreutils libraries &&
        "$ESKER" pool destroy --recursive "nodes:$dir/programs.map" && trap 'rm -rf "$dir"' EXIT
)

run "build" build
if has_ceph; then
    trap 'scripts/ceph.sh down "$cluster"' EXIT
    echo "--- a Ceph cluster"
    start_cluster || { summary+=("FAILED  a Ceph cluster") && failures=$((failures + 1)) && failed=$((failed + 1)); }
else
    echo "--- the tests on Ceph are skipped: its packages are missing (scripts/setup.sh ceph)"
fi
# In a separate folder, so that a test wheel never replaces a release wheel.
python_package() {
    scripts/wheel.sh build/test/wheels dev && scripts/daos.sh scripts/test-python.sh build/test/wheels
}

suite models "models of shared memory" models
# With a pool for the tests of daos: pools.
suite rust "Rust" scripts/daos.sh cargo test --quiet --workspace --no-fail-fast
# The suite above has tested the default transport of mounts; where that is io_uring, this part tests the device.
if grep -q Y /sys/module/fuse/parameters/enable_uring 2>/dev/null; then
    suite rust "mounts through the device" env ESKER_TEST_TRANSPORT=device \
        cargo test --quiet --workspace --test commands mount::
fi
suite ceph "the conformance suite on Ceph" cargo test --quiet -p esker --test rados
for script in tests/abi/run.sh tests/c/*.sh tests/packages/*.sh; do
    [[ ! -f $script || $script = */support.sh ]] || suite c "$script" bash "$script"
done
suite files "files, each way they are reached" scripts/posix.sh
suite python "Python" python_package
suite s3 "clients of S3" scripts/s3.sh
suite nodes "a pool over hosts" scripts/nodes.sh
suite nodes "jobs of Slurm" tests/nodes/jobs.sh
suite fabric "a pool over the fabric" scripts/fabric.sh
suite programs "programs under esker run" programs
suite programs "programs under esker run, over nodes" programs_over_nodes

echo "--- summary"
printf '%s\n' "${summary[@]}"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failures" = 0 ]
