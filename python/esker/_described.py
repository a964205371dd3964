"""ecCodes' description of a parameter: the name and the attributes of its variable, like those of cfgrib."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._esker import Field

# Attributes of a variable, by the names that cfgrib uses.
_KEYS = (
    "paramId",
    "shortName",
    "units",
    "name",
    "cfName",
    "cfVarName",
    "typeOfLevel",
    "gridType",
    "dataType",
)


class Described:
    """The description of a parameter on a type of level, from one of its fields."""

    def __init__(self, field: Field) -> None:
        """Ask ecCodes about the message of a field."""
        self._about = field.metadata(*_KEYS)
        self._key = field.key

    def _known(self, name: str) -> str | None:
        """The value of a key; None if ecCodes has no meaningful value for it."""
        value = self._about.get(name)
        return None if value in (None, "", "unknown", "undef", "~") else value

    def name(self, taken: Container[str]) -> str:
        """The name of the variable, t2m for 2t; with the type of level if others have taken it."""
        name = self._known("cfVarName") or self._known("shortName") or f"p{self._key.get('param', 'aram')}"
        return f"{name}_{self._key.get('levtype', '')}" if name in taken else name

    def attributes(self) -> dict[str, Any]:
        """The attributes of the variable."""
        described: dict[str, Any] = {f"GRIB_{name}": value for name in _KEYS if (value := self._known(name))}
        if "GRIB_paramId" in described:
            described["GRIB_paramId"] = int(described["GRIB_paramId"])
        plain = {"long_name": "name", "units": "units", "standard_name": "cfName"}
        return described | {name: value for name, key in plain.items() if (value := self._known(key))}
