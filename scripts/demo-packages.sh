#!/usr/bin/env bash
# Installs what `make demo` needs besides the build, which may run at the same time, and fetches its data.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh samples fields python
scripts/setup.sh ceph || echo "continuing without Ceph"
scripts/weather.sh || echo "continuing without weather: the demo computes an idealised wave"
