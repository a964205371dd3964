"""List the content of a store by parameter, and draw the first field of each as a map.

    python maps.py POOL/CONTAINER [MAP.png [FILE...]]

Archives the GRIB files first. MAP.png shows up to four parameters; fields with one value everywhere are left out.
Needs numpy, xarray and ecCodes (Debian: libeccodes0); the map needs matplotlib. Coastlines are drawn if
scripts/weather.sh has fetched them, or from the shapefile of polygons that COASTLINES names.
"""

import os
import pathlib
import re
import struct
import sys

import numpy as np

import esker

MAPS_MAX = 4
AXES = {"date", "time", "step", "number", "levelist", "fcmonth", "hdate"}
FETCHED = pathlib.Path(__file__).resolve().parents[2] / "build/weather/coastlines.shp"
PIXELS_PER_INCH = 110


def pyplot():
    """The part of matplotlib that draws into files; None if it is not installed."""
    try:
        import matplotlib
    except ImportError:
        print("no map: pip install matplotlib")
        return None
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    return plt


def rings(path):
    """The rings of all polygons in a shapefile: arrays of longitudes and latitudes."""
    content, at = pathlib.Path(path).read_bytes(), 100
    while at < len(content):
        (words,) = struct.unpack_from(">i", content, at + 4)
        kind, parts, points = struct.unpack_from("<i32xii", content, at + 8)
        if kind == 5:
            begins = np.frombuffer(content, "<i4", parts, at + 52)
            found = np.frombuffer(content, "<f8", 2 * points, at + 52 + 4 * parts).reshape(-1, 2)
            yield from np.split(found, begins[1:])
        at += 8 + 2 * words


def coastlines():
    """The edges of countries that no other country shares, as pairs of points; none without a shapefile."""
    path = pathlib.Path(os.environ.get("COASTLINES", FETCHED))
    if not path.exists():
        return np.empty((0, 2, 2))
    edges = np.concatenate([np.stack([ring[:-1], ring[1:]], axis=1) for ring in rings(path)])
    swapped = np.array([tuple(a) > tuple(b) for a, b in edges])
    edges[swapped] = edges[swapped][:, ::-1]
    edges, counts = np.unique(edges.round(6), axis=0, return_counts=True)
    # Polygons end at the date line and at the pole, where there is no coast.
    at_date_line = (np.abs(edges[:, :, 0]) > 179.9).all(axis=1)
    at_pole = (edges[:, :, 1] < -89.9).all(axis=1)
    return edges[(counts == 1) & ~at_date_line & ~at_pole]


def draw_coastlines(axes, west, east):
    """Draw the coastlines, also beyond the date line."""
    from matplotlib.collections import LineCollection

    edges = coastlines()
    for shift in (-360, 0, 360):
        lines = LineCollection(edges + np.array([shift, 0]), colors="black", linewidths=0.6)
        axes.add_collection(lines, autolim=False)
    axes.set_xlim(west, east)


def level_of(values):
    """The level of a field in words, if it has one."""
    for name, words in {"isobaricInhPa": " at {:g} hPa", "level": " at level {:g}"}.items():
        if name in values.coords and values[name].ndim == 0:
            return words.format(float(values[name]))
    return ""


def title(values):
    """The title of a map: parameter, level, time, step and member, as far as known."""
    coords = values.coords
    parts = [f"{values.attrs.get('long_name', values.name)}{level_of(values)}"]
    if "time" in coords and coords["time"].ndim == 0 and coords["time"].dtype.kind == "M":
        parts.append(coords["time"].dt.strftime("%Y-%m-%d %H:%M").item())
    if "step" in coords and coords["step"].ndim == 0 and coords["step"].dtype.kind == "m":
        hours = coords["step"].values.astype("timedelta64[h]").astype(int)
        parts.append(f"step {hours} h") if hours else None
    if "number" in coords and coords["number"].ndim == 0:
        parts.append(f"member {int(coords['number'])}")
    return ", ".join(parts)


def around(values):
    """A field on latitudes and longitudes from west to east, closed if it goes around the Earth."""
    values = values.assign_coords(longitude=(values.longitude + 180) % 360 - 180).sortby("longitude")
    east, spacing = values.longitude.values, float(np.diff(values.longitude.values).max())
    if east.size * spacing < 359.9:
        return values.transpose("latitude", "longitude")
    closing = values.isel(longitude=[0]).assign_coords(longitude=[east[0] + 360])
    import xarray as xr

    return xr.concat([values, closing], "longitude").transpose("latitude", "longitude")


def degrees(axes, width):
    """Label the axes of a map in degrees."""
    from matplotlib.ticker import MaxNLocator

    steps = [1, 1.5, 3, 4.5, 6, 10] if width > 90 else [1, 2, 5, 10]
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=steps))
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=steps))
    axes.xaxis.set_major_formatter(lambda east, _: f"{abs(east):g}\N{DEGREE SIGN}{'W' if east < 0 else 'E' if east else ''}")
    axes.yaxis.set_major_formatter(lambda north, _: f"{abs(north):g}\N{DEGREE SIGN}{'S' if north < 0 else 'N' if north else ''}")
    axes.tick_params(labelsize=8)


def unit(values):
    """The unit of a field, with raised powers in place of m**2 s**-2."""
    return re.sub(r"\*\*(-?\d+)", r"$^{\1}$", values.attrs.get("units", ""))


def scale(values):
    """The limits of the colours, round numbers: a few extreme values share the last colour."""
    from matplotlib.ticker import MaxNLocator

    return {"levels": MaxNLocator(24).tick_values(*np.nanquantile(values, [0.001, 0.999])), "extend": "both"}


def draw_into(axes, values, colours="RdYlBu_r", contours=None, name=None):
    """Draw values on a grid of latitudes and longitudes, or at individual points, with contours of other values."""
    if {"latitude", "longitude"} <= set(values.dims):
        closed = around(values)
        west, east = float(closed.longitude[0]), float(closed.longitude[-1])
        drawn = axes.contourf(closed.longitude, closed.latitude, closed, cmap=colours, **scale(closed))
    else:
        longitudes = (values.longitude + 180) % 360 - 180
        west, east = float(longitudes.min()), float(longitudes.max())
        drawn = axes.scatter(longitudes, values.latitude, c=values, s=2, cmap=colours)
    if contours is not None:
        lines = around(contours)
        lines = axes.contour(lines.longitude, lines.latitude, lines, 12, colors="black", linewidths=0.5, alpha=0.7)
        axes.clabel(lines, fontsize=6)
    axes.figure.colorbar(drawn, ax=axes, label=unit(values), pad=0.02)
    draw_coastlines(axes, west, east)
    degrees(axes, east - west)
    axes.set_title(name or title(values), fontsize=10)


def draw(*all_values, path, colours=()):
    """Draw a map of each variable, one above the other."""
    plt = pyplot()
    if plt is None or not all_values:
        return
    figure, axes = plt.subplots(len(all_values), figsize=(9, 4 * len(all_values)), squeeze=False, layout="constrained")
    colours = [*colours, *["RdYlBu_r"] * len(all_values)]
    for axis, values, colour in zip(axes[:, 0], all_values, colours):
        draw_into(axis, values, colour)
    figure.savefig(path, dpi=PIXELS_PER_INCH)
    print(f"map: {path}")


def first_of(variable):
    """The first field of a variable, with its values."""
    inner = {"latitude", "longitude", "values"}
    return variable.isel({name: 0 for name in variable.dims if name not in inner}).load()


def cubes(store):
    """A lazy dataset for each parameter and grid of each product; its dimensions are the axes of its fields."""
    products = {}
    for field in store.list({}):
        products[tuple((name, value) for name, value in field.key.items() if value and name not in AXES)] = None
    for product in products:
        try:
            yield from esker.open_datasets(store, dict(product))
        except ValueError as error:
            print(f"{dict(product)}: {error}")


def main(name, path="maps.png", *files):
    """Archive, list and draw."""
    store = esker.FieldStore(name)
    for file in files:
        print(f"{file}: {store.archive(file)} fields")
        store.flush()
    for axis, values in store.axes({}).items():
        print(f"{axis}: {'/'.join(values)}")
    shown = []
    for dataset in cubes(store):
        variable = next(iter(dataset.data_vars.values()))
        print(f"{variable.name}: {dict(variable.sizes)}")
        if "latitude" in variable.coords and len(shown) < MAPS_MAX:
            field = first_of(variable)
            shown += [field] if float(field.min()) < float(field.max()) else []
    draw(*shown, path=path)
    if not shown:
        print("no map: no field has values that differ")


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    main(*sys.argv[1:])
