"""`python -m esker`: replaces the interpreter by the command line tool of this installation."""

from __future__ import annotations

import importlib.metadata
import os
import pathlib
import sys


def command() -> pathlib.Path:
    """The command `esker` that was installed with this package."""
    candidates = [pathlib.Path(__file__).resolve().parents[1] / "bin" / "esker"]  # pip install --target
    for file in importlib.metadata.files("esker") or ():
        if file.parts[-2:] == ("bin", "esker"):
            candidates.insert(0, pathlib.Path(file.locate()).resolve())
    for candidate in candidates:
        if os.access(candidate, os.X_OK):
            return candidate
    raise SystemExit(
        f"esker: the command line tool is not installed with the package in {candidates[-1].parents[1]}: "
        "wheels contain it, installations from source do not; `make wheel` in the source tree builds a wheel"
    )


if __name__ == "__main__":
    path = command()
    os.execv(path, [str(path), *sys.argv[1:]])
