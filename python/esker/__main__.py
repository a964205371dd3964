"""`python -m esker`: the command line of this installation, in place of the interpreter."""

from __future__ import annotations

import importlib.metadata
import os
import pathlib
import sys


def command() -> pathlib.Path:
    """The command `esker` that was installed with this package."""
    places = [pathlib.Path(__file__).resolve().parents[1] / "bin" / "esker"]  # pip install --target
    for file in importlib.metadata.files("esker") or ():
        if file.parts[-2:] == ("bin", "esker"):
            places.insert(0, pathlib.Path(file.locate()).resolve())
    for place in places:
        if os.access(place, os.X_OK):
            return place
    raise SystemExit(
        f"esker: no command line beside the package in {places[-1].parents[1]}: wheels bring it, "
        "an installation from source does not; `make wheel` in the source tree makes a wheel"
    )


if __name__ == "__main__":
    path = command()
    os.execv(path, [str(path), *sys.argv[1:]])
