#!/usr/bin/env bash
# Tests errnos, random operations on one file, and random sequences of calls, for each way of accessing files, with the
# programs that cargo builds for tests (tests/posix/run.sh).
# usage: posix.sh [WAY...]
# environment: ESKER_SEED, the seed of all random choices
set -euo pipefail
cd "$(dirname "$0")/.."

built=${CARGO_TARGET_DIR:-target}/debug
cargo build-for-tests --quiet
reference=$(cargo test --workspace --test reference --no-run 2>&1 | sed -n 's/.*Executable.*(\(.*\))$/\1/p')
[ -x "$reference" ] || { echo "the test 'reference' is not built" >&2 && exit 1; }
export ESKER ESKER_REFERENCE ESKER_REFERENCE_ROUNDS=${ESKER_REFERENCE_ROUNDS:-40}
ESKER=$(realpath "$built/esker")
ESKER_REFERENCE=$(realpath "$reference")
tests/posix/run.sh "$@"
