"""The mean and standard deviation over the members of an ensemble, from GRIB files, as maps.

    python ensemble_mean.py POOL/CONTAINER NAME=VALUE,... FILE... [MAP.png]

Archives the files, opens the fields of the request in xarray and draws the first date, step and level.
With ERA5:

    python ensemble_mean.py tank/era5 param=130,levelist=850 era5-members.grib

Needs numpy, xarray and ecCodes (Debian: libeccodes0); the maps need matplotlib.
"""

import sys

import xarray as xr

import esker


def draw(mean, spread, path):
    """Draw both maps, one above the other."""
    try:
        import matplotlib
    except ImportError:
        print("no maps: pip install matplotlib")
        return
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    _, (above, below) = plt.subplots(2, figsize=(8, 8))
    mean.plot(ax=above, cmap="RdYlBu_r")
    spread.plot(ax=below, cmap="viridis")
    above.set_title("mean of the members")
    below.set_title("standard deviation of the members")
    plt.tight_layout()
    plt.savefig(path, dpi=100)
    print(f"maps: {path}")


def main(name, request, files, path="ensemble_mean.png"):
    """Archive the files, compute and draw."""
    with esker.FieldStore(name) as store:
        for file in files:
            print(f"{file}: {store.archive(file)} fields")
    found = xr.open_dataset(esker.FieldStore(name, "r"), request=request)
    variable = next(iter(found.data_vars.values()))
    print(variable)
    others = set(variable.dims) - {"number", "latitude", "longitude"}
    members = variable.isel(dict.fromkeys(others, 0)).load()
    mean, spread = members.mean("number", keep_attrs=True), members.std("number", keep_attrs=True)
    print(f"mean {float(mean.mean()):.2f}, spread {float(spread.mean()):.2f} {variable.attrs['units']}")
    draw(mean, spread, path)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    pictures = [argument for argument in sys.argv[3:] if argument.endswith(".png")]
    main(*sys.argv[1:3], [file for file in sys.argv[3:] if file not in pictures], *pictures[:1])
