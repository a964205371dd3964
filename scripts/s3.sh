#!/usr/bin/env bash
# Tests the S3 door with real clients, in an environment of their own.
# usage: s3.sh [PYTEST-ARGUMENT...]
set -euo pipefail
cd "$(dirname "$0")/.."

built=${CARGO_TARGET_DIR:-target}/debug
cargo build --quiet -p esker-cli -p esker-preload
export ESKER
ESKER=$(realpath "$built/esker")
clients=build/test/s3 wanted=tests/s3/requirements.txt
if ! cmp -s "$wanted" "$clients/requirements.txt"; then
    python3 -m venv --clear "$clients"
    "$clients/bin/pip" install --quiet --disable-pip-version-check --requirement "$wanted"
    cp "$wanted" "$clients/requirements.txt"
fi
"$clients/bin/python" -B -m pytest -q -rs -p no:cacheprovider tests/s3 "$@"
