"""Esker, an object store for HPC, for Python.

    import esker

    pool = esker.Pool.create("tank", size=1 << 30)        # later: esker.Pool("tank")
    with pool.create_container("run1") as container:
        index = container.kv("index")                      # a mutable mapping of bytes
        index["step 0"] = b"2.1"
        field = container.create_array("t2m", cell_size=8)
        field.write(0, numpy_array)                        # in place, without the GIL
        field.read_into(0, numpy_array)
        before = container.create_snapshot("before")
        with container.transaction() as tx:                # both changes or neither
            index.at(tx)["step 1"] = b"2.2"
            field.at(tx).set_size(0)
        index.at(before)["step 0"]

Fields of weather and climate models are archived and found by key:

    with esker.FieldStore("tank/fields") as store:         # created if it does not exist
        store.archive("forecast.grib")                     # visible at the end of `with`, or at flush()
    for field in esker.FieldStore("tank/fields", "r").retrieve({"param": 167, "step": [0, 6]}):
        field.key, field.data, field.values                # a dict, bytes, an array of float64

`xarray.open_dataset("esker://tank/fields?param=167")` opens them as a dataset.

Arrays of numpy that never change are tensors:

    store = esker.TensorStore("tank/tensors")              # created if it does not exist
    store.put(array, "t2m", {"units": "K"})                # visible at once, in place of an older one
    store["t2m"][10:20, ::2]                               # reads the selected elements only

A container created with `posix=True` holds files: `FileSystem(container)`, and
`esker://POOL/CONTAINER/path` for libraries that use fsspec (pandas, zarr, torch).

Every method that may block also has an asyncio variant with the prefix `a`: `await index.aget("step 0")`.
Errors are exceptions of `esker.errors`; all derive from `esker.Error`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _aio, _fields, _files, _html, _mapping, _tensors
from ._esker import (
    Array,
    Attributes,
    Container,
    Field,
    Fields,
    FieldStore,
    File,
    FileSystem,
    Kv,
    Pool,
    Snapshot,
    Tensor,
    TensorPut,
    TensorStore,
    Transaction,
    View,
    Watch,
    __version__,
    make_grib,
)
from .errors import (
    Error,
    Exists,
    Invalid,
    NoPermission,
    NoSpace,
    NotFound,
    TxRestart,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    import xarray

    from ._esker import _Request

__all__ = [
    "Array",
    "Attributes",
    "Container",
    "Error",
    "Exists",
    "Field",
    "FieldStore",
    "Fields",
    "File",
    "FileSystem",
    "Invalid",
    "Kv",
    "NoPermission",
    "NoSpace",
    "NotFound",
    "Pool",
    "Snapshot",
    "Tensor",
    "TensorPut",
    "TensorStore",
    "Transaction",
    "TxRestart",
    "View",
    "Watch",
    "__version__",
    "make_grib",
    "open_datasets",
]


def open_datasets(
    source: str | FieldStore,
    request: _Request | None = None,
    *,
    drop_variables: str | Iterable[str] | None = None,
) -> list[xarray.Dataset]:
    """Open the fields of a request as datasets of xarray, one for each grid.

    `source` is a URL, `esker://POOL/CONTAINER?name=value&...`, or a FieldStore; `request` a dict or a text in
    the MARS language. Needs xarray and ecCodes.
    """
    from .xarray_backend import open_datasets as opened

    return opened(source, request, drop_variables=drop_variables)


_mapping.complete()
_files.complete()
_fields.complete()
_tensors.complete()
_html.complete()
_aio.complete()
