"""Configurations: they determine the field store of an FDB."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .. import Pool
from .._esker import configured_fields
from ..errors import Exists, Invalid, NotFound
from ._errors import refused

# The size of a pool that is created in a directory of FDB's configuration, in bytes.
SIZE = 1 << 30
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}

# A store by its name: POOL/CONTAINER, where POOL may be a URL.
_NAME = re.compile(r"[^\s{}\[\]'\"]+/[^\s{}\[\]'\"]+")

_REMEDY = 'name a store, as "POOL/CONTAINER" or {"type": "esker", "store": "POOL/CONTAINER"}'


class StoreSettings(NamedTuple):
    """Settings of a field store: its name, the schema's text for a new one, and whether it may be written."""

    name: str
    schema: str | None
    writable: bool


def _yaml(text: str) -> Any:
    """A configuration from text: YAML, or only the name of a store."""
    if _NAME.fullmatch(text.strip()):
        return text.strip()
    try:
        import yaml
    except ImportError as error:
        raise ImportError("a configuration as text is YAML: pip install pyyaml") from error
    return yaml.safe_load(text)


def read(config: str | Mapping[str, Any] | Path | None) -> Any:
    """Read a configuration: a mapping, YAML text, the path of a YAML file, or the name of a store."""
    if config is None or isinstance(config, Mapping):
        return None if config is None else dict(config)
    if isinstance(config, Path):
        return _yaml(config.read_text())
    if isinstance(config, str):
        return _yaml(config)
    raise ValueError("Config: Unknown config type, must be str, dict or Path.")


def of_environment() -> Any:
    """The default: a store in ESKER_FIELDS, else what FDB reads, else `fields` of Esker's configuration."""
    if "ESKER_FIELDS" in os.environ:
        return os.environ["ESKER_FIELDS"]
    if "FDB5_CONFIG" in os.environ:
        return _yaml(os.environ["FDB5_CONFIG"])
    file = os.environ.get("FDB5_CONFIG_FILE")
    home = os.environ.get("FDB5_HOME") or os.environ.get("FDB_HOME")
    if not file and home and (Path(home) / "etc/fdb/config.yaml").exists():
        file = str(Path(home) / "etc/fdb/config.yaml")
    return read(Path(_expanded(file))) if file else configured_fields() or {}


def _expanded(path: Any) -> str:
    """A path without FDB's and the shell's abbreviations of home directories."""
    home = os.environ.get("FDB5_HOME") or os.environ.get("FDB_HOME") or "~fdb"
    return os.path.expanduser(re.sub(r"^~fdb(?=/|$)", lambda _: home, str(path)))


def _schema(config: Mapping[str, Any]) -> str | None:
    schema = config.get("schema")
    if schema is None or "[" in str(schema):
        return schema
    return Path(_expanded(schema)).read_text()


def _bytes(size: Any) -> int:
    """A size, such as 4G or 4294967296, in bytes."""
    parts = re.fullmatch(r"(\d+)\s*([KMGT]?)(?:i?B)?", str(size))
    if not parts:
        raise refused(Invalid, f"size: {size}: a size is a number of bytes, or a number with K, M, G or T")
    return int(parts[1]) * _UNITS[parts[2]]


def _directory(config: Mapping[str, Any]) -> str:
    """The only directory of a configuration of FDB's."""
    spaces = config.get("spaces") or []
    paths = {_expanded(root["path"]) for space in spaces for root in space.get("roots") or []}
    if len(paths) != 1:
        found = ", ".join(sorted(paths)) or "none"
        text = f"the configuration names {len(paths)} root directories ({found}), but a store has one"
        raise refused(Invalid, f"{text}: leave one root, or {_REMEDY}")
    return paths.pop()


def _in_directory(config: Mapping[str, Any], create: bool) -> str:
    """The name of the store in a directory of FDB's configuration, whose pool is created if it is missing."""
    directory = Path(_directory(config))
    if any(directory.glob("*/toc")):
        text = f"{directory} holds databases that FDB wrote, which Esker does not read"
        remedy = "`esker fields adopt -s POOL/CONT DIRECTORY` makes their GRIB messages known to a store"
        raise refused(Invalid, f"{text}: name another directory; {remedy}")
    pool = f"esker:{directory}/esker"
    # The pool exists if it can be opened.
    with contextlib.suppress(NotFound), Pool(pool, "r"):
        return f"{pool}/fields"
    if create:
        with contextlib.suppress(Exists):
            Pool.create("esker", _bytes(config.get("size", SIZE)), dir=directory).close()
    return f"{pool}/fields"


def store_of(config: Any, create: bool = True) -> StoreSettings:
    """The field store of a configuration that was read. With `create`, a missing pool is created."""
    if isinstance(config, str):
        return StoreSettings(config.removeprefix("esker://"), None, True)
    if not isinstance(config, Mapping) or not config:
        text = "no configuration names a field store"
        raise refused(Invalid, f"{text}: {_REMEDY}, or set ESKER_FIELDS")
    writable, kind = config.get("writable") is not False, config.get("type", "local")
    if "store" in config and isinstance(config["store"], str) and "/" in config["store"]:
        return StoreSettings(config["store"].removeprefix("esker://"), _schema(config), writable)
    if kind != "local" or config.get("engine", "toc") != "toc":
        engine = config.get("engine", "toc")
        text = f"a configuration of type {kind} and engine {engine} names no directory for a field store"
        raise refused(Invalid, f"{text}: {_REMEDY}")
    return StoreSettings(_in_directory(config, create and writable), _schema(config), writable)
