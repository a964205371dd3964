#!/usr/bin/env bash
# Fetches weather for the demo and the tutorial, and coastlines for its maps, unless they are there already. They are in
# packages of PyPI, whose versions and hashes python/requirements-weather.txt has. Needs `setup.sh python`.
# usage: weather.sh [FOLDER]; default: build/weather
#   era5-members.grib  temperature and geopotential at two levels, four times, ten members of ERA5, on 3 degrees
#   era5-europe.grib   temperature at 2 m over Europe of ERA5, on 0.25 degrees
#   forecast.grib      temperature, geopotential and wind at four levels and steps of a forecast of ECMWF, on 5 degrees
#   coastlines.shp     countries of Natural Earth
# Contains modified Copernicus Climate Change Service information.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-build/weather}
wanted=python/requirements-weather.txt
cmp -s "$wanted" "$folder/requirements.txt" && exit

fetched=$(mktemp -d)
trap 'rm -rf "$fetched"' EXIT
echo "fetching weather and coastlines from PyPI (11 MB)"
build/python/bin/pip download --quiet --disable-pip-version-check --no-deps --no-binary cfgrib --require-hashes \
    --dest "$fetched" --requirement "$wanted"
tar -xzf "$fetched"/cfgrib-*.tar.gz -C "$fetched" --strip-components 1
mkdir -p "$folder"
samples=$fetched/tests/sample-data
install -m 644 "$samples/era5-levels-members.grib" "$folder/era5-members.grib"
install -m 644 "$samples/era5-single-level-scalar-time.grib" "$folder/era5-europe.grib"
install -m 644 "$samples/multi_param_on_multi_dims.grib" "$folder/forecast.grib"
build/python/bin/python -c 'import sys, zipfile; sys.stdout.buffer.write(zipfile.ZipFile(sys.argv[1]).read(sys.argv[2]))' \
    "$fetched"/geopandas-*.whl geopandas/datasets/naturalearth_lowres/naturalearth_lowres.shp >"$folder/coastlines.shp"
cp "$wanted" "$folder/requirements.txt"
