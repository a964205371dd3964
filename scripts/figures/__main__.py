#!/usr/bin/env python3
"""Measured figures: docs/figures.json holds them, docs/performance.md, figures.svg and performance.svg beside it show them.

usage: figures measure ESKER LIBDAOS [--quick] [--only NAMES] [--memory DIR] [--disk DIR] [--python PYTHON] [--ceph URL] [--daos URL] [--gekkofs FOLDER] [--peer NAME=URL] [--keep]
       figures render
       figures check

`measure` runs the commands of every figure on this machine and writes the tables, the charts and all reports to
build/figures. With --keep it writes to docs instead and replaces the figures there. --quick takes few measurements, to
test that everything runs; its figures are meaningless. Figures that need something that is missing are left out.

`render` writes the tables and the charts from docs/figures.json; `check` fails if they differ from it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import pathlib
import re
import sys
import tempfile

from chart import render_medium, render_stores
from figure import Figure
from files import FILES
from gekkofs import GEKKOFS
from machine import ROOT, Failed, Machine, Skipped, clock
from objects import OBJECTS
from page import Data, headings_and_marks, render_page, table_lines
from peers import PEERS

DATA, PAGE, STORES, MEDIUM = "figures.json", "performance.md", "figures.svg", "performance.svg"
FIGURES: dict[str, Figure] = OBJECTS | FILES | PEERS | GEKKOFS


def rendered(data: Data, page: str) -> dict[str, str]:
    """The files that are generated from the figures."""
    return {PAGE: render_page(page, data), STORES: render_stores(data), MEDIUM: render_medium(data)}


def read_docs() -> tuple[Data, str]:
    """The recorded figures, and the page that shows them."""
    return json.loads((ROOT / "docs" / DATA).read_text()), (ROOT / "docs" / PAGE).read_text()


def json_text(data: Data) -> str:
    """The figures as JSON, with a line for each list of numbers or cells."""
    text = json.dumps(data, indent=1)
    lists = re.compile(r"\[\n\s*([^\[\]{}]*?)\n\s*\]")
    return lists.sub(lambda match: "[" + re.sub(r"\n\s*", " ", match[1]) + "]", text) + "\n"


def write(folder: pathlib.Path, data: Data, files: dict[str, str]) -> None:
    """Writes all of them into a directory."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / DATA).write_text(json_text(data))
    for name, text in files.items():
        (folder / name).write_text(text)


def measure_figure(machine: Machine, name: str) -> Data | Skipped | Failed:
    """The recorded table of a figure, or why there is none."""
    machine.begin()
    figure = FIGURES[name]
    try:
        table = figure.measure(machine)
    except (Skipped, Failed) as reason:
        return reason
    except (KeyError, TypeError, ValueError, OSError) as error:
        return Failed(f"its report cannot be read ({type(error).__name__}: {error})")
    today = datetime.date.today().strftime("%-d %B %Y")
    return figure.recorded(machine, table, today)


def rows_without_numbers(rows: list[list[str]]) -> list[str]:
    """The names of rows in which nothing was measured: a benchmark may have other names for its runs now."""
    return [row[0] for row in rows if not any(cell[:1].isdigit() for cell in row[1:])]


def measure(options: argparse.Namespace) -> int:
    """Measures the requested figures, and writes the results. Fails if a command has failed, or nothing was measured."""
    names = options.only or list(FIGURES)
    data, page = read_docs()
    if not options.keep:
        data, page = {"tables": {}, "reasons": {}}, headings_and_marks(page, names)
    folder = ROOT / ("docs" if options.keep else "build/figures")
    machine = Machine(options, ROOT / "build" / "figures" / "reports")
    measured = failed = 0
    machine.look_around()
    for number, name in enumerate(names, 1):
        machine.progress(number, len(names), name)
        found = measure_figure(machine, name)
        if isinstance(found, Exception):
            reason = f"this needs {found}" if isinstance(found, Skipped) else str(found)
            print(f"--- {name} is left out: {reason}", file=sys.stderr)
            data["reasons"][name] = reason
            failed += isinstance(found, Failed)
        else:
            measured += 1
            data["tables"][name] = found
            data["reasons"].pop(name, None)
            for row in rows_without_numbers(found["rows"]):
                print(f"--- {name}: the row {row!r} has no numbers", file=sys.stderr)
            print("\n".join(table_lines(found["columns"], found["rows"])), flush=True)
        # After each figure, so that none is lost if a later one fails.
        write(folder, data, rendered(data, page))
    print(f"--- {clock(machine.elapsed())} for {measured} of {len(names)} figures; tables: {folder / PAGE}, charts: {folder / STORES}, {folder / MEDIUM}")
    return 0 if measured and not failed else 1


def check() -> int:
    """Fails if a generated file differs from the figures."""
    data, page = read_docs()
    stale = [name for name, text in rendered(data, page).items() if (ROOT / "docs" / name).read_text() != text]
    for name in stale:
        print(f"docs/{name} differs from docs/{DATA}: run scripts/figures render", file=sys.stderr)
    return 1 if stale else 0


def render() -> int:
    """Generates the page and the charts from the recorded figures."""
    data, page = read_docs()
    write(ROOT / "docs", data, rendered(data, page))
    return 0


def parse_names(text: str) -> list[str]:
    """Names of figures."""
    names = text.split(",")
    unknown = [name for name in names if name not in FIGURES]
    if unknown:
        raise argparse.ArgumentTypeError(f"no such figure: {', '.join(unknown)}; there are {', '.join(FIGURES)}")
    return names


def parse_peer(text: str) -> tuple[str, str]:
    """The name and the address of a server."""
    name, equals, url = text.partition("=")
    if not equals or not url.startswith("http://"):
        raise argparse.ArgumentTypeError(f"{text} is not NAME=http://HOST:PORT")
    return name, url


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="figures", description="Measures and renders the figures of docs/performance.md")
    actions = parser.add_subparsers(dest="action", required=True)
    measuring = actions.add_parser("measure", help="run the commands of every figure")
    measuring.add_argument("esker", type=pathlib.Path)
    measuring.add_argument("libdaos", type=pathlib.Path)
    measuring.add_argument("--quick", action="store_true", help="take few measurements, to test that everything runs")
    measuring.add_argument("--only", type=parse_names, help=f"figures by name: {','.join(FIGURES)}")
    measuring.add_argument("--memory", default="/dev/shm", help="folder in memory (default /dev/shm)")
    measuring.add_argument("--disk", default=tempfile.gettempdir(), help="folder on a disk (default: that of temporary files)")
    measuring.add_argument("--python", help="a Python that has esker, pyfdb and zarr, to measure FDB and zarr")
    measuring.add_argument("--ceph", help="pool on Ceph: rados:POOL?conf=FILE")
    measuring.add_argument("--daos", help="pool of a DAOS system: daos:POOL")
    measuring.add_argument("--gekkofs", type=pathlib.Path, help="folder of an installed GekkoFS, to measure it")
    measuring.add_argument("--peer", type=parse_peer, help="another S3 server, NAME=URL, with the key of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
    measuring.add_argument("--keep", action="store_true", help="write to docs and replace the figures there")
    actions.add_parser("render", help="write the page and the charts from docs/figures.json")
    actions.add_parser("check", help="fail if the page or a chart is out of date")
    return parser.parse_args(arguments)


def main() -> int:
    """Does what the command line asks for."""
    options = parse()
    actions = {"measure": lambda: measure(options), "render": render, "check": check}
    return actions[options.action]()


if __name__ == "__main__":
    sys.exit(main())
