"""Archive a small computed forecast, list its axes, retrieve part of it, open it in xarray and draw a map.

    python forecast.py POOL/CONTAINER [MAP.png [DEGREES]]

The forecast is an idealised wave that moves east; weather.py has real weather. It has four parameters near the ground
and two at three pressure levels, for five steps and two members. DEGREES is the spacing of its grid, 2 by default; 0.25
is that of ERA5 and makes 200 MB.

Needs numpy, xarray and ecCodes with its samples (Debian: libeccodes0 libeccodes-data);
the map needs matplotlib.
"""

import sys

import numpy as np
import xarray as xr
from maps import draw

import esker

STEPS = range(0, 25, 6)
MEMBERS = (1, 2)
LEVELS = (850, 500, 250)
T2M, WIND_EAST, WIND_NORTH, PRESSURE, TEMPERATURE, GEOPOTENTIAL = 167, 165, 166, 151, 130, 129
NEAR_GROUND, ALOFT = (T2M, WIND_EAST, WIND_NORTH, PRESSURE), (TEMPERATURE, GEOPOTENTIAL)
LABELS = {"setLocalDefinition": 1, "class": "rd", "stream": "enfo", "type": "pf"}


def grid(degrees):
    """Latitudes from north to south, longitudes from west to east, and their GRIB keys."""
    north, east = np.arange(90, -90 - degrees / 2, -degrees), np.arange(0, 360, degrees)
    keys = {
        "Ni": east.size,
        "Nj": north.size,
        "latitudeOfFirstGridPointInDegrees": 90.0,
        "latitudeOfLastGridPointInDegrees": -90.0,
        "longitudeOfFirstGridPointInDegrees": 0.0,
        "longitudeOfLastGridPointInDegrees": 360.0 - degrees,
        "iDirectionIncrementInDegrees": degrees,
        "jDirectionIncrementInDegrees": degrees,
    }
    return north, east, keys


def model(points, param, step, member, pressure=1000):
    """Values from north to south: a wave that moves east by 15 degrees in six hours, on a mean state."""
    north, east = np.radians(points[0])[:, None], np.radians(points[1])[None, :]
    phase = 4 * (east - np.radians(2.5 * step))
    wave, slope = np.cos(phase) * np.cos(north) ** 2, -np.sin(phase) * np.cos(north) ** 2
    warm = 300 - 45 * np.sin(north) ** 2 + (5 + member) * wave
    return {
        T2M: lambda: warm,
        WIND_EAST: lambda: 12 * np.sin(2 * north) ** 2 + (2 + member) * wave,
        WIND_NORTH: lambda: (6 + member) * slope,
        PRESSURE: lambda: 101_300 - 1500 * np.sin(north) ** 2 + (700 + 100 * member) * wave,
        TEMPERATURE: lambda: warm - 0.06 * (1000 - pressure),
        # For a column with a uniform temperature, in m2/s2.
        GEOPOTENTIAL: lambda: 287 * np.log(1000 / pressure) * (warm - 0.03 * (1000 - pressure)),
    }[param]()


def message(points, param, step, member, pressure=None):
    """One field as GRIB 2: near the ground, or at a pressure level in hPa."""
    keys = {"productDefinitionTemplateNumber": 1, **LABELS, "date": 20240610, "time": 0, "number": member}
    keys |= {"typeOfLevel": "isobaricInhPa", "level": pressure} if pressure else {}
    keys |= {"paramId": param, "stepRange": str(step), **points[2], "bitsPerValue": 16}
    sample = "regular_ll_pl_grib2" if pressure else "regular_ll_sfc_grib2"
    return esker.make_grib(sample, keys, model(points, param, step, member, pressure or 1000).ravel())


def fields(points, step, members=MEMBERS):
    """All fields of a step."""
    for member in members:
        for param in NEAR_GROUND:
            yield message(points, param, step, member)
        for param in ALOFT:
            for pressure in LEVELS:
                yield message(points, param, step, member, pressure)


def main(name, path="forecast.png", degrees=2.0):
    """Archive, list, retrieve and draw."""
    store, points = esker.FieldStore(name), grid(float(degrees))
    for step in STEPS:
        archived = sum(store.archive(field) for field in fields(points, step))
        store.flush()  # makes a whole step visible at once
        print(f"step {step}: {archived} fields archived")
    for axis, values in store.axes({"class": "rd"}).items():
        print(f"{axis}: {'/'.join(values)}")

    for field in store.retrieve({"step": [0, 24], "number": 1, "param": "t", "levelist": 850}):
        print(f"t at step {field.key['step']}: {field.nbytes} bytes, {field.values.mean():.2f} K on average")

    aloft = xr.open_dataset(store, request={"class": "rd", "levtype": "pl"})
    print(aloft)
    mean = aloft.t.sel(isobaricInhPa=850).isel(step=-1).mean("number", keep_attrs=True)
    draw(mean.assign_attrs(long_name="Temperature of an idealised wave"), path=path)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3, 4) or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    main(*sys.argv[1:])
