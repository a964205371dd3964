#!/usr/bin/env bash
# Builds the Python package with the tools that `setup.sh python` installs.
# usage: wheel.sh FOLDER PROFILE
#   FOLDER   where to put the wheel; removes older ones
#   PROFILE  cargo profile: release, or dev to share the tests' build
set -euo pipefail
cd "$(dirname "$0")/.."

rm -rf "$1"
build/python/bin/maturin build --quiet --locked --profile "$2" --manifest-path python/Cargo.toml --out "$1"
