#!/usr/bin/env bash
# Continues where `make test` stops: runs the randomised tests with another seed in each round, and the tools that
# find other errors. Prints each failure with its seed and keeps it in build/soak/failures.
#
# usage: soak.sh [--minutes N | --rounds N] [WHAT...]
#   --minutes N  starts no round after N minutes (default 30)
#   --rounds N   runs N rounds, however long they take
#   WHAT         in rounds: torture model simulation files fields parse daos posix nodes s3; once: miri loom threads (default: all)
#                once, and only if asked for: kills (1,000 writers of each kind, half an hour), memory (a tensor of
#                10 GiB, on the disk of the build, and 100,000 samples), explore (a writer stopped and killed at every
#                store of each kind of change, ten minutes)
#
# environment: ESKER_SEED, the seed of the first round; ESKER_TORTURE_ROUNDS, the length of each torture test;
#              ESKER_KILLS, how many writers of each kind are killed; ESKER_EXPLORE, `all` or the number of a stop, for
#              `explore`; ESKER_PYTHON_MORE, packages that the Python tests of kills and memory need and `make test`
#              does not install (default: torch)
set -uo pipefail
cd "$(dirname "$0")/.." || exit

drawn=(torture model simulation files fields parse daos posix nodes s3)
tools=(miri loom threads)
asked=(kills memory explore)
minutes=30 rounds=0 wanted=()
place=build/soak
mkdir -p "$place/failures"

while [ $# -gt 0 ]; do
    case $1 in
    --minutes | --rounds)
        [[ ${2:-} =~ ^[0-9]+$ ]] || { echo "soak.sh: $1 needs a number" >&2 && exit 2; }
        printf -v "${1#--}" %s "$2"
        shift
        ;;
    *)
        [[ " ${drawn[*]} ${tools[*]} ${asked[*]} " == *" $1 "* ]] || { echo "soak.sh: no such thing: $1" >&2 && exit 2; }
        wanted+=("$1")
        ;;
    esac
    shift
done
[ ${#wanted[@]} -gt 0 ] || wanted=("${drawn[@]}" "${tools[@]}")

tests() {
    cargo test --quiet --no-fail-fast "$@"
}

torture() {
    tests -p esker-testing
}

model() {
    tests -p esker --lib --tests && tests -p esker-store --lib
}

# Clients, engines and the network between them, many times more often than in `make test`.
simulation() {
    ESKER_SIMULATION_ROUNDS=500 tests -p esker --test simulation
}

files() {
    tests -p esker-dfs --tests
}

fields() {
    tests -p esker-fields -p esker-tensors --tests
}

# Every parser of untrusted bytes, for much longer than in `make test`.
parse() {
    ESKER_FUZZ_ROUNDS=200 tests --workspace --exclude esker-python fuzz_
}

# Calls of the DAOS API with arguments of all kinds.
daos() {
    tests -p esker-libdaos no_argument_crashes
}

posix() {
    ESKER_POSIX_CALLS=${ESKER_POSIX_CALLS:-5000} scripts/posix.sh
}

# The same on a pool over hosts, for longer than in `make test`.
nodes() {
    ESKER_ALL_SUITES=1 ESKER_REFERENCE_ROUNDS=60 ESKER_TORTURE_ROUNDS=10 scripts/nodes.sh
}

# All tests of `esker serve s3` on each kind of pool: among them several clients at a time, for minutes, with a check of
# the server's memory.
s3() {
    ESKER_ALL_SUITES=1 ESKER_S3_STEPS=2500 scripts/s3.sh -s
}

# Writers of tensors in both kinds of pools, of commits of zarr, of long values and of checkpoints.
kills() {
    local kills=${ESKER_KILLS:-1000}
    once kills-tensors env ESKER_TORTURE_ROUNDS=$((kills / 3 + 1)) \
        cargo test --quiet -p esker-tensors --test killed -- --nocapture
    python_tests kills-python "ESKER_KILLS=$kills" -k "killed"
}

# Every stop of each kind of change, and 40 killed writers of each kind.
explore() {
    once explore env ESKER_EXPLORE="${ESKER_EXPLORE:-all}" ESKER_TORTURE_ROUNDS="${ESKER_TORTURE_ROUNDS:-4000}" \
        cargo test --quiet -p esker-testing --test torture -- --nocapture explore::
}

memory() {
    python_tests memory "ESKER_TENSOR_MIB=10240 ESKER_SAMPLES=100000 ESKER_WORKERS=4" test_memory.py
}

# python_tests NAME VARIABLES PYTEST-ARGUMENT...: with PyTorch, which `make test` does without because it is large.
python_tests() {
    local name=$1 variables
    read -ra variables <<<"$2"
    shift 2
    once "$name-wheel" scripts/wheel.sh build/soak/wheels dev
    once "$name" env ESKER_PYTHON_MORE="${ESKER_PYTHON_MORE-torch}" "${variables[@]}" \
        scripts/test-python.sh build/soak/wheels -rsP "$@"
}

has_nightly() {
    cargo +nightly "$@" >/dev/null 2>&1
}

skip() {
    echo "skipped: $1: $2"
    skipped=$((skipped + 1))
}

passed=0 failed=0 skipped=0

# Modules without system calls, because Miri does not support mapped files. Modules that parse or encode bytes belong
# here, except those of the field store, whose only unsafe code calls ecCodes.
in_store=(format:: data::header:: data::table:: commit::intent::)
in_client=(array:: naming:: copy::state::)
in_posix=(bundle:: meta:: name::)
in_rados=(record:: names:: url::)
# The C functions on a pool in memory. C programs keep pointers where Rust would use borrows, and own returned memory.
in_libdaos=(acl:: attribute:: container:: handles:: hash:: layout:: misc:: object:: pool:: property:: tx::)
miri() {
    has_nightly miri --version || { skip miri "no nightly toolchain with it (rustup toolchain install nightly -c miri)" && return; }
    once miri under_miri
}

under_miri() {
    export MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-tree-borrows"
    interpreted -p esker-types --lib &&
        interpreted -p esker-backend --lib &&
        modules esker-store "${in_store[@]}" &&
        modules esker "${in_client[@]}" &&
        modules esker-posix "${in_posix[@]}" &&
        modules esker-rados "${in_rados[@]}" &&
        modules esker-dfs inode:: &&
        interpreted -p esker-libdaos --lib &&
        MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-disable-stacked-borrows -Zmiri-ignore-leaks" \
            interpreted -p esker-libdaos --test functions -- "${in_libdaos[@]}"
}

# modules PACKAGE MODULE...: the unit tests of modules, each of which must have some.
modules() {
    local package=$1 module all
    shift
    all=$(interpreted -p "$package" --lib -- --list) || return
    for module; do
        grep -q "^$module.*: test$" <<<"$all" || { echo "$package has no tests of $module" && return 1; }
    done
    interpreted -p "$package" --lib -- "$@"
}

interpreted() {
    cargo +nightly miri test --quiet --target-dir "$place/target-miri" "$@"
}

# Code that threads share without locks, in every interleaving with at most three preemptions.
loom() {
    once loom env RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=3 cargo test --quiet \
        --target-dir "$place/target-loom" -p esker-libdaos -p esker-store --lib models::
}

# Threads of one process on a pool, under ThreadSanitizer, with the standard library and LMDB instrumented.
threads() {
    local sources
    sources=$(rustc +nightly --print sysroot 2>/dev/null)/lib/rustlib/src/rust/library
    [ -d "$sources" ] || { skip threads "no nightly toolchain with its sources (rustup toolchain install nightly -c rust-src)" && return; }
    once threads env RUSTFLAGS=-Zsanitizer=thread CFLAGS=-fsanitize=thread \
        TSAN_OPTIONS="suppressions=$PWD/scripts/tsan.supp" cargo +nightly test --quiet \
        -Zbuild-std --target x86_64-unknown-linux-gnu --target-dir "$place/target-tsan" -p esker --test native -- threads
}

# once NAME COMMAND...: runs the command, and keeps its output if it fails.
once() {
    local name=$1 log=$place/$1.log kept
    shift
    if "$@" >"$log" 2>&1; then
        echo "ok      $name"
        grep -oE '(^figure: .*|[0-9]+ writers killed|^SKIPPED.*|^[0-9]+ passed.*)' "$log"
        passed=$((passed + 1))
    else
        kept=$place/failures/$name-${ESKER_SEED:-none}.log
        { echo "ESKER_SEED=${ESKER_SEED:-} $*" && cat "$log"; } >"$kept"
        echo "FAILED  $name, ESKER_SEED=${ESKER_SEED:-}: $kept"
        failed=$((failed + 1))
    fi
}

draw() {
    od -An -N6 -tu8 /dev/urandom | tr -d ' '
}

seed=${ESKER_SEED:-}
for ((round = 1; rounds == 0 ? SECONDS < minutes * 60 : round <= rounds; round++)); do
    export ESKER_SEED=${seed:-$(draw)}
    seed=
    ran=0
    echo "--- round $round, ESKER_SEED=$ESKER_SEED"
    for name in "${wanted[@]}"; do
        [[ " ${drawn[*]} " != *" $name "* ]] || { ran=1 && once "$name" "$name"; }
    done
    [ $ran = 1 ] || break
done
for name in "${wanted[@]}"; do
    [[ " ${asked[*]} " != *" $name "* ]] || "$name"
done
unset ESKER_SEED
for name in "${wanted[@]}"; do
    [[ " ${tools[*]} " != *" $name "* ]] || "$name"
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
