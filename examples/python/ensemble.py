"""Archive an ensemble from several hosts, and draw it on another.

    python ensemble.py archive POOL/CONTAINER MEMBER [DEGREES]
    python ensemble.py draw POOL/CONTAINER [MAP.png]

On a pool over nodes, each host archives a member of the ensemble, and any host reads all of them. See forecast.py for
what is needed.
"""

import sys

import xarray as xr
from forecast import STEPS, fields, grid
from maps import draw

import esker


def archive(name, member, degrees=2.0):
    """Archive all steps of one member."""
    store, points = esker.FieldStore(name), grid(float(degrees))
    archived = 0
    for step in STEPS:
        archived += sum(store.archive(field) for field in fields(points, step, members=[int(member)]))
        store.flush()
    print(f"member {member}: {archived} fields archived")


def draw_members(name, path="ensemble.png"):
    """Draw the temperature at 850 hPa of each member at the last step, and the spread of the members."""
    store = esker.FieldStore(name)
    aloft = xr.open_dataset(store, request={"class": "rd", "levtype": "pl"})
    last = aloft.t.sel(isobaricInhPa=850).isel(step=-1)
    members = [last.sel(number=number) for number in last.number.values]
    spread = last.std("number", keep_attrs=True).assign_attrs(long_name="Spread of temperature")
    draw(*members, spread, path=path)
    print(f"{len(members)} members read, {float(spread.mean()):.2f} K apart on average")


if __name__ == "__main__":
    commands = {"archive": archive, "draw": draw_members}
    if len(sys.argv) < 3 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]](*sys.argv[2:])
