"""Archive an ensemble from several hosts, and draw it on another.

    python ensemble.py archive POOL/CONTAINER SOURCE MEMBERS
    python ensemble.py draw POOL/CONTAINER [MAP.png]

On a pool over nodes, each host archives some members of the ensemble, and any host reads all of them. SOURCE is a store
that has the ensemble, such as that of weather.py or forecast.py; MEMBERS are in the MARS language, such as 0/to/4.
Needs numpy, xarray and ecCodes (Debian: libeccodes0); the map needs matplotlib.
"""

import sys

import xarray as xr
from maps import draw

import esker


def archive(name, source, members):
    """Copy the temperature of some members, which become visible at once."""
    with esker.FieldStore(name) as store:
        fields = esker.FieldStore(source, "r").retrieve({"param": "t", "number": members})
        archived = sum(store.archive(field.data) for field in fields)
    print(f"members {members}: {archived} fields archived")


def draw_members(name, path="ensemble.png"):
    """Draw the mean and the spread of the members' temperature at 850 hPa, at the last time and step."""
    store = esker.FieldStore(name, "r")
    temperature = xr.open_dataset(store, request={"param": "t", "levelist": 850}).t
    last = temperature.isel({axis: -1 for axis in ("time", "step") if axis in temperature.dims}).squeeze().load()
    count, quantity = last.number.size, last.attrs.get("long_name", "Temperature")
    mean = last.mean("number", keep_attrs=True).assign_attrs(long_name=f"{quantity}, mean of {count} members,")
    spread = last.std("number", keep_attrs=True).assign_attrs(long_name=f"{quantity}, spread of {count} members,")
    draw(mean, spread, path=path, colours=["RdYlBu_r", "YlOrRd"])
    print(f"{count} members read, {float(spread.mean()):.2f} K apart on average")


if __name__ == "__main__":
    commands = {"archive": (archive, (5,)), "draw": (draw_members, (3, 4))}
    if len(sys.argv) < 2 or sys.argv[1] not in commands or len(sys.argv) not in commands[sys.argv[1]][1]:
        sys.exit(__doc__)
    commands[sys.argv[1]][0](*sys.argv[2:])
