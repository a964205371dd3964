#!/usr/bin/env bash
# Tests the S3 server with real clients, in environments of their own.
# usage: s3.sh [PYTEST-ARGUMENT...]
# environment: ESKER_SPARK=none leaves out Spark, which is large.
set -euo pipefail
cd "$(dirname "$0")/.."

# environment FOLDER REQUIREMENTS: makes a virtual environment, unless it is there.
environment() {
    ! cmp -s "$2" "$1/requirements.txt" || return 0
    python3 -m venv --clear "$1"
    "$1/bin/pip" install --quiet --disable-pip-version-check --requirement "$2"
    cp "$2" "$1/requirements.txt"
}

# Spark with its libraries from Maven, and the package esker beside it.
spark() {
    local place=build/test/spark wheels=build/test/wheels
    environment "$place" tests/s3/spark.txt
    compgen -G "$wheels/esker-*.whl" >/dev/null || scripts/wheel.sh "$wheels" dev
    "$place/bin/pip" install --quiet --disable-pip-version-check --no-deps --force-reinstall "$wheels"/esker-*.whl
    if ! cmp -s examples/spark/pom.xml "$place/pom.xml"; then
        mvn --quiet --batch-mode --file examples/spark/pom.xml dependency:copy-dependencies \
            -DoutputDirectory="$PWD/$place/jars"
        cp examples/spark/pom.xml "$place/pom.xml"
    fi
    export ESKER_SPARK_PYTHON=$PWD/$place/bin/python SPARK_JARS=$PWD/$place/jars
}

built=${CARGO_TARGET_DIR:-target}/debug
cargo build-for-tests --quiet
export ESKER
ESKER=$(realpath "$built/esker")
environment build/test/s3 tests/s3/requirements.txt
if [ "${ESKER_SPARK:-}" != none ] && command -v java >/dev/null && command -v mvn >/dev/null; then
    spark
fi
build/test/s3/bin/python -B -m pytest -q -rs -p no:cacheprovider tests/s3 "$@"
