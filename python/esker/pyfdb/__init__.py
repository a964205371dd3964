"""The interface of pyfdb on a field store of Esker: `from esker import pyfdb` in place of `import pyfdb`.

    from esker import pyfdb

    with pyfdb.FDB("tank/fields") as fdb:
        fdb.archive(open("forecast.grib", "rb").read())
    with fdb.retrieve({"class": "od", "step": [0, 6], "param": 167}) as handle:
        handle.read()

The classes and their methods are those of pyfdb 5.25; the page "From pyfdb" of the documentation lists the
differences. `FDB.store` is the `esker.FieldStore` below.
"""

from .pyfdb import FDB
from .pyfdb_iterator import (
    ControlElement,
    IndexAxis,
    ListElement,
    PurgeElement,
    StatsElement,
    StatusElement,
    WipeElement,
)
from .pyfdb_type import URI, ControlAction, ControlIdentifier, DataHandle, MarsSelection

# The release of pyfdb whose interface this is.
__version__ = "5.25.0"

__all__ = [
    "FDB",
    "URI",
    "ControlAction",
    "ControlElement",
    "ControlIdentifier",
    "DataHandle",
    "IndexAxis",
    "ListElement",
    "MarsSelection",
    "PurgeElement",
    "StatsElement",
    "StatusElement",
    "WipeElement",
]
