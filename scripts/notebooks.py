#!/usr/bin/env python3
"""Makes notebooks of examples/python/notebooks, runs them, and writes them with what they show.

    python scripts/notebooks.py FOLDER [SOURCE.py...]

The sources are Python in the percent format of Jupytext, so that they can be read, compared and linted. FOLDER receives
NAME.ipynb, and NAME.md with its pictures for the book. A source whose packages are missing is named and left out. Needs
nbclient, nbformat, ipykernel and an installed esker.
"""

from __future__ import annotations

import base64
import importlib.util
import itertools
import pathlib
import re
import sys
from collections.abc import Iterator

import nbformat
from nbclient import NotebookClient

ROOT = pathlib.Path(__file__).resolve().parents[1]
SOURCES = ROOT / "examples/python/notebooks"
CELL = re.compile(r"^# %%(?P<kind> \[markdown\])?\n", re.M)
# Comments that tell the tests what a line prints; a notebook shows the output itself.
PRINTS = re.compile(r"^# prints .*\n?|  # prints .*$", re.M)
TIMEOUT = 300


def is_there(module: str) -> bool:
    """Whether a module is installed, or is one of the examples that notebooks add to their path."""
    return importlib.util.find_spec(module) is not None or (SOURCES.parent / f"{module}.py").exists()


def missing(source: str) -> list[str]:
    """The packages that a source imports and that are not installed, and the weather if it has not been fetched."""
    wanted = re.findall(r"^(?:import|from) (\w+)", source, re.M)
    absent = sorted({name for name in wanted if not is_there(name)})
    fetched = "build/weather/" not in source or (ROOT / "build/weather").exists()
    return absent if fetched else [*absent, "the fields that scripts/weather.sh fetches"]


def notebook(source: str) -> nbformat.NotebookNode:
    """A notebook of a source, without outputs."""
    parts = CELL.split(source)
    cells = []
    for number, (kind, text) in enumerate(zip(parts[1::2], parts[2::2])):
        if kind:
            cell = nbformat.v4.new_markdown_cell(re.sub(r"^# ?", "", text.strip(), flags=re.M))
        else:
            cell = nbformat.v4.new_code_cell(PRINTS.sub("", text).strip())
        # Random ids would make each build another file.
        cell["id"] = f"cell-{number}"
        cells.append(cell)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})


def run(made: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Run all cells, in the root of the repository; fails as the first cell that does."""
    where, quiet = {"metadata": {"path": str(ROOT)}}, ["--log-level=ERROR"]
    NotebookClient(made, timeout=TIMEOUT, resources=where, record_timing=False, extra_arguments=quiet).execute()
    nbformat.validate(made)
    return made


def printed(made: nbformat.NotebookNode) -> str:
    """The standard output of all cells."""
    outputs = [output for cell in made.cells for output in cell.get("outputs", ())]
    return "".join(output["text"] for output in outputs if output.get("name") == "stdout")


def shown(output: nbformat.NotebookNode, pictures: Iterator[pathlib.Path]) -> str:
    """An output in Markdown. A picture is written to a file. HTML that Markdown would break is shown as text."""
    data = output.get("data", {"text/plain": output.get("text", "")})
    if "image/png" in data:
        picture = next(pictures)
        picture.write_bytes(base64.b64decode(data["image/png"]))
        return f"![]({picture.name})\n"
    if "\n" not in data.get("text/html", "\n"):
        return f"{data['text/html']}\n"
    text = re.sub(r"\x1b\[[\d;]*m", "", data.get("text/plain", "")).rstrip()
    return f"```text\n{text}\n```\n" if text else ""


def markdown(made: nbformat.NotebookNode, folder: pathlib.Path, name: str) -> str:
    """A page of a notebook, its code and what that shows."""
    pictures = (folder / f"{name}-{number}.png" for number in itertools.count(1))
    parts = []
    for cell in made.cells:
        if cell["cell_type"] == "markdown":
            parts.append(f"{cell['source']}\n")
            continue
        parts.append(f"```python\n{cell['source']}\n```\n")
        parts += [shown(output, pictures) for output in cell["outputs"] if output.get("name") != "stderr"]
    parts.insert(1, f"[This page as a notebook]({name}.ipynb)\n")
    return "\n".join(part for part in parts if part)


def main(folder: pathlib.Path, sources: list[pathlib.Path]) -> None:
    """Make, run and write notebooks."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in sources:
        source = path.read_text()
        if absent := missing(source):
            print(f"left out: {path.stem} needs {', '.join(absent)}")
            continue
        made = run(notebook(source))
        nbformat.write(made, folder / f"{path.stem}.ipynb")
        (folder / f"{path.stem}.md").write_text(markdown(made, folder, path.stem))
        print(f"{folder}/{path.stem}.ipynb")


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]), [pathlib.Path(one) for one in sys.argv[2:]] or sorted(SOURCES.glob("*.py")))
