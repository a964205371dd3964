"""A program for pyfdb, on a field store: archive, list, retrieve, replace, disable, purge and wipe.

    python from_pyfdb.py POOL/CONTAINER

Only the import and the configuration differ from what it would be with FDB.
"""

import sys

from esker import pyfdb  # was: import pyfdb

if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
    sys.exit(__doc__)

KEY = {"class": "rd", "expver": "0001", "stream": "oper", "date": "20240610", "time": "0000", "domain": "g"}
KEY |= {"type": "fc", "levtype": "sfc", "param": "167"}

# Archive some bytes under identifiers. GRIB messages need none: fdb.archive(open("forecast.grib", "rb").read())
with pyfdb.FDB(sys.argv[1]) as fdb:
    for step in range(0, 25, 6):
        fdb.archive(f"t2m at step {step}\n".encode(), KEY | {"step": str(step)})

# List: all fields of a selection, then the databases and indexes that have some.
for element in fdb.list({"param": "2t", "step": "0/to/12/by/6"}):
    print("field", element.combined_key()["step"], element.length(), "bytes")
for element in fdb.list({}, level=2):
    print("index", *element.keys())
print("steps", *fdb.axes({})["step"])

# Retrieve: a handle is a file. A missing field (step 99) is left out.
with fdb.retrieve(KEY | {"step": ["24", "99", "0"]}) as handle:
    print(handle.size(), "bytes:", handle.read().decode().splitlines())

# Archiving a key again masks the field; a purge frees its space.
with fdb:
    fdb.archive(b"a better t2m at step 0\n", KEY | {"step": "0"})
print("masked and not:", [element.length() for element in fdb.list(KEY | {"step": "0"}, include_masked=True)])
print(*fdb.purge({}, doit=True, porcelain=True))

# Wiping can be disabled for a database.
identifiers = [pyfdb.ControlIdentifier.WIPE]
print(*fdb.control({"date": "20240610"}, pyfdb.ControlAction.DISABLE, identifiers))
try:
    list(fdb.wipe({"class": "rd"}, doit=True))
except RuntimeError as error:
    print("refused:", error)
list(fdb.control({}, pyfdb.ControlAction.ENABLE, identifiers))
for element in fdb.wipe({"class": "rd"}, doit=True):
    print("wiped", element.type(), len(element.uris()))
