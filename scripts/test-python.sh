#!/usr/bin/env bash
# Installs a wheel into an empty virtual environment, where nothing else can be imported, and runs the tests of the
# Python package there. Tests that need missing packages are skipped and counted.
# usage: test-python.sh WHEELS-FOLDER [PYTEST-ARGUMENT...]
#
# environment: ESKER_PYTHON_MORE, further packages to install, such as torch, which is large
set -euo pipefail
cd "$(dirname "$0")/.."

tools=build/python/bin empty=build/test/python
wheel=$(echo "$1"/esker-*.whl)
shift
"$tools/python" -m venv --clear --without-pip "$empty"
"$tools/pip" --python "$empty/bin/python" install --quiet --disable-pip-version-check \
    --constraint python/requirements.txt pytest pytest-asyncio hypothesis fsspec mypy numpy xarray zarr dask h5py \
    earthkit-data ipykernel matplotlib mpi4py nbclient nbformat netCDF4 pyfdb "$wheel"
# shellcheck disable=SC2086  # several packages
[ -z "${ESKER_PYTHON_MORE:-}" ] ||
    "$tools/pip" --python "$empty/bin/python" install --quiet --disable-pip-version-check $ESKER_PYTHON_MORE
cd python/tests
"../../$empty/bin/python" -B -X dev -m pytest --rootdir . -c ../pyproject.toml "$@" .
