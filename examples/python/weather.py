"""Archive weather of ECMWF, list its axes, ask for parts of it by key, and draw maps and a time series.

    python weather.py POOL/CONTAINER FOLDER [PICTURE.png]

FOLDER has what scripts/weather.sh fetches: an ensemble of ERA5 and its temperature over Europe. Needs numpy, xarray and
ecCodes (Debian: libeccodes0); the picture needs matplotlib.
"""

import pathlib
import sys

import xarray as xr
from maps import PIXELS_PER_INCH, draw_into, pyplot

import esker

ENSEMBLE = {"class": "ea", "stream": "enda", "levtype": "pl"}
PLACES = {"Reading": (51, 359), "Bologna": (45, 12), "Moscow": (57, 38), "Chicago": (42, 273), "Tokyo": (36, 139)}
# Geopotential in m2/s2 divided by this is a height in decametres.
DECAMETRES = 98.0665
SOURCE = "ERA5; contains modified Copernicus Climate Change Service information, 2017"


def archive(store, folder):
    """Archive the files; the fields of each file become visible at once."""
    for name in ("era5-members.grib", "era5-europe.grib"):
        archived = store.archive(pathlib.Path(folder) / name)
        store.flush()
        print(f"{name}: {archived} fields archived")


def draw_series(axes, temperature):
    """Draw the temperature of each member at some places over time."""
    for number, (place, (north, east)) in enumerate(PLACES.items()):
        there = temperature.sel(latitude=north, longitude=east, method="nearest") - 273.15
        lines = axes.plot(there.time, there.transpose("time", "number"), color=f"C{number}", linewidth=0.8)
        lines[0].set_label(place)
    axes.set_title("Temperature at 850 hPa of each of ten members", fontsize=10)
    axes.set_ylabel("\N{DEGREE SIGN}C")
    axes.xaxis.set_major_formatter("{x}")
    axes.set_xticks(temperature.time.values, temperature.time.dt.strftime("%d %b %Hh").values)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))


def draw(aloft, europe, path):
    """Draw the mean and the spread of the ensemble, Europe, and a time series."""
    plt = pyplot()
    if plt is None:
        return
    figure, axes = plt.subplots(2, 2, figsize=(15, 8.5), layout="constrained")
    last = aloft.isel(time=-1)
    when = last.time.dt.strftime("%d %B %Y, %H:%M UTC").item()
    temperature = last.t.sel(isobaricInhPa=850)
    mean = (temperature.mean("number") - 273.15).assign_attrs(units="\N{DEGREE SIGN}C")
    height = last.z.sel(isobaricInhPa=500).mean("number") / DECAMETRES
    spread = temperature.std("number").assign_attrs(units="K")
    draw_into(axes[0, 0], mean, "RdYlBu_r", height, f"Temperature at 850 hPa, height of 500 hPa in dam\n{when}")
    draw_into(axes[0, 1], spread, "YlOrRd", name=f"Spread of temperature at 850 hPa over ten members\n{when}")
    near = (europe - 273.15).assign_attrs(units="\N{DEGREE SIGN}C")
    when = europe.time.dt.strftime("%d %B %Y, %H:%M UTC").item()
    draw_into(axes[1, 0], near, "RdYlBu_r", name=f"Temperature at 2 m on a grid of 0.25\N{DEGREE SIGN}\n{when}")
    draw_series(axes[1, 1], aloft.t.sel(isobaricInhPa=850))
    figure.supxlabel(SOURCE, fontsize=8)
    figure.savefig(path, dpi=PIXELS_PER_INCH)
    print(f"map: {path}")


def main(name, folder, path="weather.png"):
    """Archive, list, retrieve and draw."""
    store = esker.FieldStore(name)
    archive(store, folder)
    for axis, values in store.axes({}).items():
        print(f"{axis}: {'/'.join(values)}")

    request = {**ENSEMBLE, "param": "t", "levelist": 850, "date": 20170102, "time": 1200, "number": [0, 9]}
    for field in store.retrieve(request):
        coldest = field.values.min() - 273.15
        print(f"t of member {field.key['number']}: {field.nbytes} bytes, down to {coldest:.1f} degrees Celsius")

    aloft = xr.open_dataset(store, request=ENSEMBLE).load()
    print(aloft)
    europe = xr.open_dataset(store, request={"class": "ea", "levtype": "sfc", "param": "2t"}).t2m.squeeze().load()
    draw(aloft, europe, path)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4) or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    main(*sys.argv[1:])
