"""`_repr_html_` of pools, containers and what they hold: the tables that notebooks show.

A table has names, keys and sizes; no data is read for it.
"""

from __future__ import annotations

import functools
import html
import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from . import _esker
from .errors import Error

# Rows of a table, and values in a cell; more are counted or indicated.
ROWS_MAX = 12
VALUES_MAX = 12
MORE = "\N{HORIZONTAL ELLIPSIS}"

# The method that IPython calls.
HTML = "_repr_html_"

_STYLE = "text-align:left;vertical-align:top"
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


def text(value: Any) -> str:
    """A value as text of HTML, in which nothing is markup."""
    if isinstance(value, bytes):
        value = value.decode(errors="backslashreplace")
    return html.escape(str(value), quote=True)


def size(count: int) -> str:
    """A number of bytes in the unit that suits it."""
    amount, unit = float(count), 0
    while amount >= 1024 and unit + 1 < len(_UNITS):
        amount, unit = amount / 1024, unit + 1
    return f"{count} bytes" if unit == 0 else f"{amount:.2f} {_UNITS[unit]}"


def some(values: Iterable[Any]) -> str:
    """The first of some values, separated by commas."""
    first = list(itertools.islice(values, VALUES_MAX + 1))
    return ", ".join(map(str, first[:VALUES_MAX])) + (f", {MORE}" if len(first) > VALUES_MAX else "")


def _row(cells: Iterable[Any], tag: str = "td") -> str:
    """A row of a table; `tag` is th for a header."""
    return "<tr>" + "".join(f'<{tag} style="{_STYLE}">{text(cell)}</{tag}>' for cell in cells) + "</tr>"


def pairs(values: Mapping[str, Any]) -> str:
    """A table of names and values."""
    rows = [
        f'<tr><th style="{_STYLE}">{text(k)}</th><td style="{_STYLE}">{text(v)}</td></tr>'
        for k, v in values.items()
    ]
    return f"<table>{''.join(rows)}</table>" if rows else ""


def table(names: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> str:
    """A table with a header; it ends with an ellipsis if there are more rows than are shown."""
    first = list(itertools.islice(rows, ROWS_MAX + 1))
    if not first:
        return ""
    shown = [_row(row) for row in first[:ROWS_MAX]]
    if len(first) > ROWS_MAX:
        shown.append(_row([MORE]))
    return f"<table><thead>{_row(names, 'th')}</thead><tbody>{''.join(shown)}</tbody></table>"


def block(kind: str, name: Any, *parts: str) -> str:
    """The heading of an object, and its tables."""
    heading = f"<strong>esker.{text(kind)}</strong> <code>{text(name)}</code>"
    return f'<div style="overflow-x:auto">{heading}{"".join(parts)}</div>'


def _pool(self: _esker.Pool) -> str:
    info = self.info()
    facts = {"mode": self.mode, "medium": info["medium"], "durability": info["durability"]}
    facts["targets"] = info["targets"]
    for kind in ("data", "index"):
        if info[f"{kind}_total_bytes"]:
            free, total = size(info[f"{kind}_free_bytes"]), size(info[f"{kind}_total_bytes"])
            facts[kind] = f"{free} free of {total}"
    rows = ((one["label"], one["uuid"], one["checksum"]) for one in self.containers())
    return block("Pool", self.name, pairs(facts), table(("container", "UUID", "checksum"), rows))


def _container(self: _esker.Container) -> str:
    facts = {
        "pool": self.pool.name,
        "UUID": self.uuid,
        "mode": self.mode,
        "checksum": self.info()["checksum"],
    }
    attributes = pairs(
        {f"attribute {name}": value for name, value in itertools.islice(self.attributes.items(), ROWS_MAX)}
    )
    snapshots = table(("snapshot", "epoch"), ((one.name, one.epoch) for one in self.snapshots()))
    return block("Container", self.label or self.uuid, pairs(facts), attributes, snapshots)


def _kv(self: _esker.Kv) -> str:
    facts = {"container": self.container.label or self.container.uuid, "object id": self.oid}
    rows = ((key, size(self.size(key) or 0)) for key in self)
    return block("Kv", repr(self), pairs(facts), table(("key", "size of the value"), rows))


def _array(self: _esker.Array) -> str:
    facts = {
        "container": self.container.label or self.container.uuid,
        "object id": self.oid,
        "cells": self.size(),
        "size of a cell": size(self.cell_size),
        "cells of a chunk": self.chunk_size,
    }
    return block("Array", repr(self), pairs(facts))


def _files(self: _esker.FileSystem) -> str:
    kinds = {"directory": "directory", "link": "link"}
    rows = ((name, kinds.get(stat["type"], size(stat["size"]))) for name, stat in self.scandir("/"))
    name = f"{self.container.pool.name}/{self.container.label or self.container.uuid}"
    return block("FileSystem", name, table(("in /", "size"), rows))


def axes_table(axes: Mapping[str, Iterable[str]]) -> str:
    """The values of each name in a store."""
    return pairs({name: some(values) for name, values in axes.items()})


def _field_store(self: _esker.FieldStore) -> str:
    return block("FieldStore", self.name, pairs({"mode": self.mode}), axes_table(self.axes()))


def _field(self: _esker.Field) -> str:
    return block("Field", self.store.name, pairs({**self.key, "size": size(self.nbytes)}))


def _fields(self: _esker.Fields) -> str:
    first = [field.key for field in itertools.islice(self, ROWS_MAX + 1)]
    names = tuple(dict.fromkeys(name for key in first for name in key))
    rows = (tuple(key.get(name, "") for name in names) for key in first)
    facts: dict[str, Any] = {"fields": len(self), "size": size(self.nbytes)}
    if self.missing_count:
        facts["missing"] = self.missing_count
    store = self[0].store.name if len(self) else ""
    return block("Fields", store, pairs(facts), table(names, rows))


def _tensor_store(self: _esker.TensorStore) -> str:
    rows = ((one["name"] or one["uuid"], one["shape"], size(one["nbytes"])) for one in self.list())
    return block(
        "TensorStore", self.name, pairs({"mode": self.mode}), table(("tensor", "shape", "size"), rows)
    )


def _chunks(shape: tuple[int, ...], chunks: tuple[int, ...]) -> int:
    """The number of chunks of a tensor."""
    count = 1
    for length, chunk in zip(shape, chunks):
        count *= -(-length // chunk) if chunk else 0
    return count


def _tensor(self: _esker.Tensor) -> str:
    facts = {
        "store": self.store.name,
        "UUID": self.uuid,
        "type": self.dtype,
        "shape": self.shape,
        "chunks": f"{_chunks(self.shape, self.chunks)} of {self.chunks}",
        "size": size(self.nbytes),
    }
    attributes = itertools.islice(self.attrs.items(), ROWS_MAX)
    return block(
        "Tensor", self.name or self.uuid, pairs(facts), pairs({f"attribute {k}": v for k, v in attributes})
    )


class Axes(dict[str, list[str]]):
    """The values of each name in a field store, which notebooks show as a table."""

    def _repr_html_(self) -> str:
        return block("FieldStore", "axes", axes_table(self))


def _or_none(shown: Callable[[Any], str]) -> Callable[[Any], str | None]:
    """Let `shown` return None for an object that is closed or destroyed: a notebook then shows its repr."""

    @functools.wraps(shown)
    def representation(self: Any) -> str | None:
        try:
            return shown(self)
        except (Error, ImportError):
            return None

    return representation


_SHOWN: dict[type, Callable[[Any], str]] = {
    _esker.Pool: _pool,
    _esker.Container: _container,
    _esker.Kv: _kv,
    _esker.Array: _array,
    _esker.FileSystem: _files,
    _esker.FieldStore: _field_store,
    _esker.Field: _field,
    _esker.Fields: _fields,
    _esker.TensorStore: _tensor_store,
    _esker.Tensor: _tensor,
}


def _axes(asked: Callable[..., dict[str, list[str]]]) -> Callable[..., Axes]:
    """Let the method `asked` return its dict as Axes, which a notebook shows as a table."""

    @functools.wraps(asked)
    def axes(self: _esker.FieldStore, request: Any = None, *, empty: bool = False) -> Axes:
        return Axes(asked(self, request, empty=empty))

    return axes


def complete() -> None:
    """Add the method to each class."""
    for cls, shown in _SHOWN.items():
        setattr(cls, HTML, _or_none(shown))
    _esker.FieldStore.axes = _axes(_esker.FieldStore.axes)  # type: ignore[method-assign]
