"""List the content of a store by parameter, and draw the first field of each as a map.

    python maps.py POOL/CONTAINER [MAP.png [FILE...]]

Archives the GRIB files first. MAP.png shows up to four parameters. Needs numpy, xarray and ecCodes
(Debian: libeccodes0); the map needs matplotlib.
"""

import sys

import esker

MAPS_MAX = 4
AXES = {"date", "time", "step", "number", "levelist", "fcmonth", "hdate"}


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


def title(values):
    """The title of a map: parameter, time and step, as far as known."""
    step = values.coords.get("step")
    hours = "" if step is None or step.dtype.kind != "m" else f" + {step.values.astype('timedelta64[h]').astype(int)} h"
    begin = values.coords.get("time")
    time = "" if begin is None or begin.dtype.kind != "M" else f", {begin.dt.strftime('%Y-%m-%d %H:%M').item()}"
    return f"{values.attrs.get('long_name', values.name)}{time}{hours}"


def draw_into(axes, values):
    """Draw values on a grid of latitudes and longitudes, or at individual points."""
    if {"latitude", "longitude"} <= set(values.dims):
        values.plot(ax=axes, cmap="RdYlBu_r")
    else:
        points = axes.scatter(values.longitude, values.latitude, c=values, s=2, cmap="RdYlBu_r")
        axes.figure.colorbar(points, ax=axes, label=values.attrs.get("units", ""))
        axes.set(xlabel="longitude", ylabel="latitude")
    axes.set_title(title(values))


def draw(*all_values, path):
    """Draw a map of each variable, one above the other."""
    plt = pyplot()
    if plt is None or not all_values:
        return
    figure, axes = plt.subplots(len(all_values), figsize=(9, 4 * len(all_values)), squeeze=False)
    for axis, values in zip(axes[:, 0], all_values):
        draw_into(axis, values)
    figure.tight_layout()
    figure.savefig(path, dpi=100)
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
            shown.append(first_of(variable))
    draw(*shown, path=path)


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    main(*sys.argv[1:])
