"""DAOS's Python interface over Esker: `import pydaos` finds it, unless DAOS's own is installed.

    import pydaos

    cont = pydaos.DCont("tank", "neo")                 # or DCont(path="daos://tank/neo")
    cities = cont.dict("stadium", {"Barcelona": "Camp Nou"})
    cities["Milano"] = "San Siro"
    cities.bget({"Milano": None, "Barcelona": None})   # bytes, as in DAOS
    cont.get("stadium"), "stadium" in cont, list(cont)

Containers need not be created with a type. The names of a container's objects are the keys of its Key-Value
`.pydaos`; the objects are Key-Values and Arrays of Esker, under the same names.
`pydaos.torch` has datasets and checkpoints for PyTorch.
"""

from ._array import DArray
from ._client import DaosClient, DaosErrorCode, PyDError
from ._container import DCont, DObjNotFound, InvalidModeError, check
from ._dict import DDict

__all__ = [
    "DArray",
    "DCont",
    "DDict",
    "DObjNotFound",
    "DaosClient",
    "DaosErrorCode",
    "InvalidModeError",
    "PyDError",
    "check",
]
