#!/usr/bin/env python3
"""Checks the types of the Python in the documentation: the blocks of a page are one program, in their order.

Both type checkers read it, with the type hints of the packages in `python`. Libraries that are not installed
pass. An error names the page and the line in it. `typed_pages.py PAGE...` checks these pages, by default all.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
BIN = pathlib.Path(sys.executable).parent
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)

MYPY = ("--no-error-summary", "--allow-redefinition", "--ignore-missing-imports", "--check-untyped-defs", "--config-file=")
PYRIGHT = {"typeCheckingMode": "basic", "reportMissingImports": False, "reportMissingModuleSource": False}


def program(text: str) -> str:
    """The code of a page; each line has the number it has in the page."""
    lines = [""] * text.count("\n")
    for block in BLOCK.finditer(text):
        code = block[1].splitlines()
        begin = text.count("\n", 0, block.start(1))
        lines[begin : begin + len(code)] = code
    return "\n".join(lines) + "\n"


def written(pages: list[pathlib.Path], folder: pathlib.Path) -> dict[str, str]:
    """Write the programs of pages that have code; return the pages by the names of the files."""
    known = {}
    for page in pages:
        code = program(page.read_text())
        if code.strip():
            name = re.sub(r"\W", "_", str(page.relative_to(ROOT).with_suffix(""))) + ".py"
            (folder / name).write_text(code)
            known[name] = str(page.relative_to(ROOT))
    return known


def errors(folder: pathlib.Path, names: list[str]) -> str:
    """Return the errors that the type checkers find in programs; an empty string if there are none."""
    settings = {**PYRIGHT, "extraPaths": [str(ROOT / "python")]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    cache = ("--cache-dir", str(ROOT / "build/mypy-pages"))
    pyright = ("--level", "error", "--pythonpath", sys.executable)
    commands = ([BIN / "mypy", *MYPY, *cache, *names], [BIN / "basedpyright", *pyright])
    said = ""
    for command in commands:
        environment = {**os.environ, "MYPYPATH": str(ROOT / "python")}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        if done.returncode:
            said += done.stdout + done.stderr
    return said


def main(wanted: list[str]) -> None:
    """Check pages."""
    every = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    pages = [pathlib.Path(page).resolve() for page in wanted] or every
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        known = written(pages, folder)
        said = errors(folder, list(known)) if known else ""
    for file, page in known.items():
        said = said.replace(f"{folder}/{file}", page).replace(file, page)
    if said:
        sys.exit(f"{said}the code of {len(known)} pages has errors of types: mend it, or the type hints")


if __name__ == "__main__":
    main(sys.argv[1:])
