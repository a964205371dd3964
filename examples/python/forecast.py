"""Archive a small forecast, look at its axes, retrieve some of it, open it in xarray and draw a map.

    python forecast.py POOL/CONTAINER [MAP.png [DEGREES]]

DEGREES is the distance of the points of its grid, 2 without; 0.25 is that of ERA5.

Needs numpy, xarray and ecCodes with its samples (Debian: libeccodes0 libeccodes-data);
the map needs matplotlib.
"""

import sys

import numpy as np
import xarray as xr

import esker

STEPS = range(0, 25, 6)
MEMBERS = (1, 2)
LEVELS = (850, 500)
LABELS = {"setLocalDefinition": 1, "class": "rd", "stream": "enfo", "type": "pf"}


def grid(degrees):
    """Latitudes from north to south, longitudes from west to east, and what GRIB calls them."""
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


def temperature(points, step, member, pressure):
    """Kelvin at each point, from north to south: a wave that goes east, 15 degrees in six hours."""
    north, east = np.radians(points[0])[:, None], np.radians(points[1])[None, :]
    wave = np.cos(4 * (east - np.radians(2.5 * step))) * np.cos(north) ** 2
    return 300 - 45 * np.sin(north) ** 2 + (5 + member) * wave - 0.06 * (1000 - pressure)


def message(points, step, member, pressure):
    """One field as GRIB 2."""
    keys = {"productDefinitionTemplateNumber": 1, **LABELS, "date": 20240610, "time": 0, "number": member}
    keys |= {"typeOfLevel": "isobaricInhPa", "level": pressure, "paramId": 130, "stepRange": str(step)}
    values = temperature(points, step, member, pressure).ravel()
    return esker.make_grib("regular_ll_pl_grib2", keys | points[2] | {"bitsPerValue": 16}, values)


def draw(values, path):
    """Draw the mean over the members as a map."""
    try:
        import matplotlib
    except ImportError:
        print("no map: pip install matplotlib")
        return
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    values.plot(figsize=(9, 4), cmap="RdYlBu_r")
    plt.savefig(path, dpi=100)
    print(f"map: {path}")


def main(name, path="forecast.png", degrees=2.0):
    """Do all of it."""
    store, points = esker.FieldStore(name), grid(float(degrees))
    for step in STEPS:
        for member in MEMBERS:
            for pressure in LEVELS:
                store.archive(message(points, step, member, pressure))
        store.flush()  # readers see a step all at once
    for axis, values in store.axes({"class": "rd"}).items():
        print(f"{axis}: {'/'.join(values)}")

    for field in store.retrieve({"step": [0, 24], "number": 1, "levelist": 850}):
        print(f"step {field.key['step']}: {field.nbytes} bytes, {field.values.mean():.2f} K on average")

    forecast = xr.open_dataset(store, engine="esker", request={"class": "rd", "levelist": 850})
    mean = forecast.t.mean("number", keep_attrs=True).isel(step=-1)
    print(forecast.t)
    draw(mean, path)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3, 4):
        sys.exit(__doc__)
    main(*sys.argv[1:])
