"""ecCodes' description of a parameter: the name and the attributes of its variable, like those of cfgrib."""

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

    def __init__(self, field):
        """Ask ecCodes about the message of a field."""
        self._about = field.metadata(*_KEYS)
        self._key = field.key

    def _known(self, name):
        value = self._about.get(name)
        return None if value in (None, "", "unknown", "undef", "~") else value

    def name(self, taken):
        """The name of the variable, t2m for 2t; with the type of level if others have taken it."""
        name = self._known("cfVarName") or self._known("shortName") or f"p{self._key.get('param', 'aram')}"
        return f"{name}_{self._key.get('levtype', '')}" if name in taken else name

    def attributes(self):
        """The attributes of the variable."""
        described = {f"GRIB_{name}": value for name in _KEYS if (value := self._known(name))}
        if "GRIB_paramId" in described:
            described["GRIB_paramId"] = int(described["GRIB_paramId"])
        plain = {"long_name": "name", "units": "units", "standard_name": "cfName"}
        return described | {name: value for name, key in plain.items() if (value := self._known(key))}
