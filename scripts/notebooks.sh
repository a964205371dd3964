#!/usr/bin/env bash
# Installs a wheel and what notebooks need into an environment, and runs the notebooks into build/notebooks. Those of
# packages that are not installed, such as torch, are named and left out.
# usage: notebooks.sh WHEELS-FOLDER
set -euo pipefail
cd "$(dirname "$0")/.."
tools=build/python/bin environment=build/notebooks/python
wheel=$(echo "$1"/esker-*.whl)
rm -rf build/notebooks
"$tools/python" -m venv --without-pip "$environment"
"$tools/pip" --python "$environment/bin/python" install --quiet --disable-pip-version-check \
    --constraint python/requirements.txt dask fsspec ipykernel matplotlib nbclient nbformat numpy xarray zarr "$wheel"
"$environment/bin/python" scripts/notebooks.py build/notebooks
