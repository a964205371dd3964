"""The measuring machine: runs the benchmarks, keeps their reports, and remembers what they were made on."""

from __future__ import annotations

import argparse
import collections
import contextlib
import ctypes
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
PR_SET_THP_DISABLE = 41
BAR_WIDTH = 30


class Skipped(Exception):
    """A figure, or a part of it, needs something that this machine lacks: names it."""


class Failed(Exception):
    """A command of a figure failed: says which one and how."""


def no_huge_pages() -> None:
    """Turns off huge pages for this process and its children."""
    ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)


def clock(seconds: float) -> str:
    """Minutes and seconds."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


class Machine:
    """Runs the benchmarks of one figure after the other."""

    def __init__(self, options: argparse.Namespace, reports: pathlib.Path):
        self.options, self.reports = options, reports
        shutil.rmtree(reports, ignore_errors=True)
        reports.mkdir(parents=True)
        self.started, self.count, self.host = time.monotonic(), 0, None
        self.built: str | None = None
        self.has_disk = False
        self.begin()

    @property
    def quick(self) -> bool:
        """True if everything is only tried."""
        return bool(self.options.quick)

    def begin(self) -> None:
        """Begins a figure: nothing is known of what it was measured on."""
        self.commands: list[str] = []
        self.media: dict[str, bool] = {}
        self.commits: collections.Counter[str] = collections.Counter()
        self.absent: list[str] = []
        # Further words of commands that name directories of this machine, and how they are shown.
        self.names: dict[str, str] = {}

    def repeats(self, count: int) -> int:
        """The number of runs of a command that is run several times."""
        return 1 if self.quick else count

    def short(self, *arguments: object) -> list[object]:
        """Arguments that shorten a benchmark, if everything is only tried."""
        return list(arguments) if self.quick else []

    def look_around(self) -> None:
        """Learns machine and commit from a short benchmark, for figures without reports, and the medium of `--disk`."""
        with contextlib.suppress(Failed):
            self.has_disk = self.bench("limit", "--total", "1MiB", "--path", self.options.disk)["host"]["medium"] == "block"
        self.bench("limit", "--total", "1MiB", "--path", self.options.memory)

    def need_disk(self) -> str:
        """The folder on a disk; the figure is skipped if it is on another medium."""
        if not self.has_disk:
            raise Skipped(f"a folder on a disk, which {self.options.disk} is not (`--disk DIR`)")
        return str(self.options.disk)

    def bench(self, *arguments: object, small_pages: bool = False, variables: dict[str, str] | None = None) -> dict[str, Any]:
        """The report of `esker bench ARGUMENTS`."""
        self.count += 1
        report = self.reports / f"{self.count:03}-{arguments[0]}.json"
        command = ["bench", *map(str, arguments)]
        self.note(command, variables or {}, "   # without huge pages" if small_pages else "")
        # Open MPI refuses to run as root without these.
        for_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        all_variables = {**os.environ, **for_root, **(variables or {})}
        self.run([self.options.esker, "--no-progress", *command, "--json", report], small_pages, all_variables)
        found: dict[str, Any] = json.loads(report.read_text())
        self.learn(found)
        return found

    def note(self, command: list[str], variables: dict[str, str], remark: str) -> None:
        """Remembers a command, with names in place of this machine's directories."""
        options = self.options
        address = options.peer[1] if options.peer else None
        known = [(options.disk, "DISK"), (options.python, "PYTHON"), (options.ceph, "CEPH"), (options.daos, "DAOS"), (address, "URL")]
        names = self.names | {str(value): name for value, name in known if value}
        words = [*(f"{name}={names.get(value, value)}" for name, value in variables.items()), "esker", *(names.get(word, word) for word in command)]
        line = " ".join(words) + remark
        print("   ", line, flush=True)
        if line not in self.commands:
            self.commands.append(line)

    def learn(self, report: dict[str, Any]) -> None:
        """Remembers machine, medium and commit of a report."""
        host = report.get("host")
        if host:
            self.host = host
            self.media[host["file_system"]] = True
        commit = report.get("settings", {}).get("commit")
        if commit:
            self.commits[commit] += 1
            self.built = commit

    def run(self, command: list[object], small_pages: bool = False, variables: dict[str, str] | None = None) -> str:
        """The output of a command; the figure is left out if it fails."""
        before = no_huge_pages if small_pages else None
        words = list(map(str, command))
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, preexec_fn=before, env=variables)
        if done.returncode != 0:
            raise Failed(f"`{pathlib.Path(words[0]).name} {' '.join(words[1:3])}` ended with status {done.returncode}")
        return done.stdout

    def version(self, package: str) -> str | None:
        """The version of a package in the given Python, or none if it lacks it."""
        if not self.options.python:
            return None
        ask = f"import importlib.metadata as m; print(m.version({package!r}))"
        done = subprocess.run([self.options.python, "-c", ask], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        return done.stdout.strip() or None

    def need_package(self, *packages: str) -> list[str]:
        """The versions of packages in the given Python; the figure is skipped if one is missing."""
        found = {package: self.version(package) for package in packages}
        missing = [package for package, version in found.items() if version is None]
        if missing:
            raise Skipped(f"a Python with {' and '.join(packages)} (`--python PROGRAM`)")
        return [str(version) for version in found.values()]

    def describe(self) -> str:
        """The machine, in one line."""
        if self.host is None:
            return "an unknown machine"
        kernel = ".".join(self.host["kernel"].split(".")[:2])
        memory = f"{self.host['memory_bytes'] / (1 << 30):.0f} GiB"
        quick = "; --quick, so these figures mean nothing" if self.quick else ""
        return f"{self.host['cpus']} x {self.host['cpu']}, {memory}, Linux {kernel}{quick}"

    def commit(self) -> str | None:
        """The commit of the programs that measured the figure."""
        return ", ".join(sorted(self.commits)) or self.built

    def elapsed(self) -> float:
        """Seconds since the first figure began."""
        return time.monotonic() - self.started

    def progress(self, number: int, total: int, name: str) -> None:
        """Reports that a figure begins: a line, and a bar on a terminal."""
        print(f"--- figure {number} of {total}: {name} ({clock(self.elapsed())} elapsed)", flush=True)
        if sys.stderr.isatty():
            full = BAR_WIDTH * (number - 1) // total
            print(f"[{'#' * full}{'.' * (BAR_WIDTH - full)}] {100 * (number - 1) // total} %", file=sys.stderr)
