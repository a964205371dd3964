"""Fields as an xarray dataset: `xr.open_dataset("esker://POOL/CONTAINER?class=od&step=0/6")`.

One variable per parameter, with the names and attributes that cfgrib uses. Opening reads only keys and
one message per parameter; accessing values reads only the fields that contain them.
"""

from __future__ import annotations

import functools
import warnings
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import xarray as xr
from xarray.backends import BackendArray, BackendEntrypoint, NetCDF4BackendEntrypoint
from xarray.core import indexing

from . import FieldStore, Pool
from ._axes import Axis, by_grid, expect_size, grid, key_text, level_name, number, step, time, union
from ._described import Described
from .errors import Error, NotFound

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from ._axes import Coordinate, Grid
    from ._esker import Field, Fields, _Floats, _Request


class FieldArray(BackendArray):
    """The values of one parameter: float32, in the shape of its axes and its grid."""

    def __init__(self, fields: NDArray[Any], first: Field, where: Grid) -> None:
        """Take an array of fields, None for missing ones, the first of them, and the grid of all."""
        self.fields, self.first = fields, first
        self.identity, self.grid_shape = where.identity, tuple(where.shape)
        self.shape = fields.shape + self.grid_shape
        self.dtype = np.dtype("float32")

    def __getitem__(self, key: Any) -> Any:
        """Read the part that an xarray key selects."""
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self._read)

    def _read(self, key: tuple[Any, ...]) -> NDArray[Any]:
        """Decode the selected fields, and take the selected points of each; NaN where a field is missing."""
        outer, inner = key[: self.fields.ndim], key[self.fields.ndim :]
        wanted = _outer(self.fields, outer)
        points = _outer(np.arange(int(np.prod(self.grid_shape))).reshape(self.grid_shape), inner)
        values = np.full(wanted.shape + points.shape, np.nan, self.dtype)
        for position, field in np.ndenumerate(wanted):
            if field is not None:
                values[position] = self._values(field)[points]
        return values

    def _values(self, field: Field) -> _Floats:
        values = self.identity.values(field, lambda: self.first)
        expect_size(field, values, self.grid_shape)
        return values


def _outer(array: NDArray[Any], key: tuple[Any, ...]) -> NDArray[Any]:
    """Index each dimension by its own key, as in xarray's outer indexing."""
    for axis in reversed(range(array.ndim)):
        # The ellipsis keeps it an array if no dimension is left.
        array = array[(slice(None),) * axis + (key[axis], ...)]
    return array


class EskerBackend(BackendEntrypoint):
    """Opens the fields that a request to a field store finds."""

    description = (
        "Fields of an Esker field store by MARS request (esker://POOL/CONTAINER?class=od&...), and zarr"
    )
    open_dataset_parameters = ("filename_or_obj", "request", "drop_variables")

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Return whether it is a FieldStore, or a URL with a request or of a container."""
        if isinstance(filename_or_obj, FieldStore):
            return True
        if not _is_url(filename_or_obj):
            return False
        name, query = _split(filename_or_obj)
        pool = name.rpartition("/")[0]
        return bool(query) or _is_label(pool) or _is_pool(pool)

    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        request: _Request | None = None,
        drop_variables: str | Iterable[str] | None = None,
    ) -> xr.Dataset:
        """Open the fields of a request, given by the URL, by `request` (a dict or MARS text), or both.

        A container that `esker.zarr` wrote is opened as a zarr hierarchy.
        """
        if request is None and _is_url(filename_or_obj) and _is_zarr(filename_or_obj):
            return _zarr_dataset(filename_or_obj, drop_variables)
        return _dataset(_found(filename_or_obj, request), _dropped(drop_variables))


def open_datasets(
    source: str | FieldStore,
    request: _Request | None = None,
    *,
    drop_variables: str | Iterable[str] | None = None,
) -> list[xr.Dataset]:
    """Open the fields of a request as a list of datasets, one for each grid.

    The arguments are those of `xarray.open_dataset`: a URL or a FieldStore, and a request as a dict or MARS
    text. Grids are in the order of their first fields. The message of each field is read once, to learn its
    grid; values are read when they are accessed.
    """
    dropped = _dropped(drop_variables)
    return [_dataset(fields, dropped) for fields in by_grid(_found(source, request))]


def _found(source: str | FieldStore, request: _Request | None) -> Fields:
    """The fields of a request, at least one."""
    store, wanted = _source(source, request)
    found = store.retrieve(wanted, partial=True)
    if not len(found):
        # Raises an error that names the missing fields, if the request names fields.
        store.retrieve(wanted)
        raise NotFound(2, f"{source}: the store has no fields")
    if found.missing:
        store._expect_each_value(wanted)
    return found


def _dropped(names: str | Iterable[str] | None) -> set[str]:
    return {names} if isinstance(names, str) else set(names or ())


def _is_url(source: object) -> bool:
    return isinstance(source, str) and source.startswith("esker://")


def _leave_to_us(backend: type[BackendEntrypoint]) -> None:
    """Let another backend leave URLs of Esker to this one."""
    guess = backend.guess_can_open

    @functools.wraps(guess)
    def guess_can_open(self: BackendEntrypoint, filename_or_obj: Any) -> bool:
        return not _is_url(filename_or_obj) and guess(self, filename_or_obj)

    setattr(backend, guess.__name__, guess_can_open)


# xarray asks it first, and it accepts all URLs. The library netcdf-c opens none of Esker's.
_leave_to_us(NetCDF4BackendEntrypoint)


def _split(source: str) -> tuple[str, str]:
    """The name of the store in a URL, and the request."""
    url = urlsplit(source)
    if url.scheme != "esker":
        raise ValueError(f"{source!r} is not a URL of the form esker://POOL/CONTAINER?name=value&...")
    name = (url.netloc + url.path).rstrip("/")
    return (f"esker:{name}" if name.startswith("/") else name), url.query


def _is_label(pool: str) -> bool:
    """Whether a pool is named by its label, without a path."""
    return pool != "" and "/" not in pool


def _is_pool(pool: str) -> bool:
    """Whether the URL of a pool names a pool, and not a file in one."""
    has_scheme = ":" in pool.partition("/")[0]
    try:
        return has_scheme and bool(Pool(pool, "r"))
    except Error:
        return False


def _is_zarr(source: str) -> bool:
    """Whether a URL without a request names a container that `esker.zarr` wrote."""
    name, query = _split(source)
    pool, _, label = name.rpartition("/")
    if query or not pool:
        return False
    with Pool(pool, "r").container(label) as container:
        return "zarr" in container.attributes


def _zarr_dataset(source: str, dropped: str | Iterable[str] | None) -> xr.Dataset:
    from .zarr import Store

    store: Any = Store(_split(source)[0], read_only=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Failed to open Zarr store with consolidated metadata")
        return xr.open_dataset(store, engine="zarr", chunks=None, drop_variables=dropped)


def _source(source: str | FieldStore, request: _Request | None) -> tuple[FieldStore, _Request]:
    """The store, and the request as a dict or text."""
    if isinstance(source, FieldStore):
        return source, request or {}
    name, query = _split(source)
    store = FieldStore(name, "r")
    asked = _parse_request(source, query)
    if isinstance(request, str):
        if asked:
            raise ValueError("a request in the URL excludes one as text: use one of them, or a dict")
        return store, request
    return store, asked | dict(request or {})


def _parse_request(source: str, query: str) -> dict[str, str]:
    """The names and values after the question mark of a URL."""
    pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    names = [name for name, _ in pairs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(
            f"{source!r} has {twice[0]} more than once: separate the values of a name by slashes"
        )
    return dict(pairs)


def _dataset(found: Iterable[Field], dropped: set[str]) -> xr.Dataset:
    """The dataset of these fields."""
    groups: dict[tuple[str | None, str | None], list[tuple[dict[str, str], Field]]] = {}
    for field in found:
        key = field.key
        groups.setdefault((key.get("param"), key.get("levtype")), []).append((key, field))
    kinds = {group: _Kind(members) for group, members in groups.items()}
    sizes = union(kinds.values())
    variables: dict[str, xr.Variable] = {}
    coordinates: dict[str, Coordinate] = {}
    first_grid: Grid | None = None
    for kind in kinds.values():
        name = kind.described.name(variables)
        if name in dropped:
            continue
        where = grid(kind.first)
        if first_grid is not None and not first_grid.same(where):
            raise first_grid.identity.error(where.identity)
        first_grid = first_grid or where
        variables[name] = kind.variable(sizes, where)
    for axis in sizes.values():
        coordinates[axis.name] = axis.coordinate()
    if first_grid is not None:
        coordinates |= first_grid.coordinates
    dataset = xr.Dataset(variables, coordinates, {"Conventions": "CF-1.7"})
    return _with_valid_time(dataset)


def _with_valid_time(dataset: xr.Dataset) -> xr.Dataset:
    """Add the time of validity, the sum of `time` and `step`, if there are both."""
    kinds = {name: dataset[name].dtype.kind for name in ("time", "step") if name in dataset.coords}
    if kinds != {"time": "M", "step": "m"}:
        return dataset
    valid = dataset["time"] + dataset["step"]
    valid.attrs = {"standard_name": "time", "long_name": "time"}
    return dataset.assign_coords(valid_time=valid)


class _Kind:
    """The fields of one parameter on one type of level."""

    def __init__(self, members: list[tuple[dict[str, str], Field]]) -> None:
        self.first = members[0][1]
        self.levtype = members[0][0].get("levtype", "")
        self.described = Described(self.first)
        self.positions = [(self._position(key), field) for key, field in members]
        self.axes: dict[str, dict[Any, None]] = {}
        for position, _ in self.positions:
            for name, value in position.items():
                self.axes.setdefault(name, {})[value] = None

    def _position(self, key: Mapping[str, str]) -> dict[str, Any]:
        """The position of a field on the axes of the dataset."""
        position: dict[str, Any] = {}
        for name, value in key.items():
            if value == "" or name in ("param", "levtype", "date", "time"):
                continue
            if name == "levelist":
                position[level_name(self.levtype)] = number(value)
            else:
                position[name] = step(value) if name == "step" else number(value)
        if key.get("date"):
            position["time"] = time(key["date"], key.get("time", ""))
        return position

    def variable(self, sizes: Mapping[str, Axis], where: Grid) -> xr.Variable:
        """The variable, with the axes that have more than one value."""
        axes = [sizes[name] for name in self.axes if len(sizes[name]) > 1]
        axes.sort(key=Axis.rank)
        fields = np.full([len(axis) for axis in axes], None, object)
        for position, field in self.positions:
            without = [axis.name for axis in axes if axis.name not in position]
            if without:
                raise ValueError(
                    f"{key_text(field.key)} has no {without[0]}, unlike other fields: "
                    "request fields with the same keys"
                )
            at = tuple(axis.index(position[axis.name]) for axis in axes)
            if fields[at] is not None:
                raise ValueError(
                    f"{key_text(field.key)} occurs twice on the axes {[axis.name for axis in axes]}"
                )
            fields[at] = field
        dims = [axis.name for axis in axes] + list(where.dims)
        data = indexing.LazilyIndexedArray(FieldArray(fields, self.first, where))
        chunks = [1] * len(axes) + list(where.shape)
        encoding = {"preferred_chunks": dict(zip(dims, chunks))}
        return xr.Variable(dims, data, self.described.attributes(), encoding)
