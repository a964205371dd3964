"""Figures of files in a container: by the library, under `esker run`, on a mount; and of programs that start."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from typing import Any, NamedTuple, Union

from figure import Figure, Table
from machine import Failed, Machine
from reports import Report, Run, median_rate, paired
from spread import duration, mebibytes, rate, ratio, spread_of

# Ways to reach a container: name in reports, and heading.
WAYS = [("DFS", "DFS"), ("run", "`esker run`"), ("mount", "`esker mount`")]

# "Y" if the kernel serves FUSE over io_uring, which `esker mount` then uses.
FUSE_OVER_IO_URING = pathlib.Path("/sys/module/fuse/parameters/enable_uring")

# Work, workload, phase, size of a transfer, and the number of the run among those with the same members.
Work = tuple[str, str, str, Union[int, None], int]
WORK: list[Work] = [
    ("create", "mdtest", "file-creation", None, 0),
    ("stat", "mdtest", "file-stat", None, 0),
    ("remove", "mdtest", "file-removal", None, 0),
    ("8 KiB write", "ior", "write", 8 << 10, 0),
    ("8 KiB read", "ior", "read", 8 << 10, 0),
    ("8 KiB write, shared file", "ior", "write", 8 << 10, 1),
    ("1 MiB write", "ior", "write", 1 << 20, 0),
    ("1 MiB read", "ior", "read", 1 << 20, 0),
]
LATENCIES = WORK[:5]


def way_headings() -> list[str]:
    """Headings of the ways; that of the mount names io_uring if mounts are served over it on this machine."""
    enabled = FUSE_OVER_IO_URING.exists() and FUSE_OVER_IO_URING.read_text().strip() == "Y"
    return [heading + " over io_uring" if way == "mount" and enabled else heading for way, heading in WAYS]


def find(report: Report, store: str, work: Work, procs: int) -> Run | None:
    """The run of some work on a file system."""
    _, workload, phase, size, number = work
    found = [
        run
        for run in report["runs"]
        if (run["store"], run["workload"], run["phase"], run["procs"]) == (store, workload, phase, procs) and size in (None, run["size_bytes"])
    ]
    return found[number] if number < len(found) else None


def disk_of(report: Report) -> str:
    """The type of the disk's file system."""
    known = {name for name, _ in WAYS} | {"tmpfs"}
    return next((run["store"] for run in report["runs"] if run["store"] not in known), "disk")


def rate_cell(work: Work, run: Run | None) -> str:
    """The median rate of a run in the unit of its workload, or a dash."""
    return (rate if work[1] == "mdtest" else mebibytes)(median_rate(run))


def file_table(report: Report, base: str, others: list[str], name: str, latencies: bool) -> Table:
    """Ratios to a file system for each work, and times of one process."""
    table, ways = Table(), [way for way, _ in WAYS] + others
    for work in WORK:
        run = find(report, base, work, 2)
        spreads = [table.keep(f"{name} {way} {work[0]}", paired(find(report, way, work, 2), run)) for way in ways]
        table.rows.append([work[0], rate_cell(work, run), *map(ratio, spreads)])
    for work in LATENCIES if latencies else []:
        times = [find(report, system, work, 1) for system in (base, *ways)]
        table.rows.append([f"{work[0]}, time", *("-" if run is None else duration(run["latency_us"]["p50"]) for run in times)])
    return table


class Sizes(NamedTuple):
    """Number of files, and bytes that each process writes to files in small and in large transfers."""

    files: int
    small: str
    large: str


# Sizes that are tried, and those that are measured.
MEMORY_SIZES = Sizes(1000, "4M", "16M"), Sizes(10_000, "128M", "256M")
DISK_SIZES = Sizes(1000, "4M", "16M"), Sizes(5000, "128M", "256M")
ENGINE_SIZES = Sizes(200, "1M", "8M"), Sizes(5000, "16M", "64M")


def bench_posix(machine: Machine, sizes: tuple[Sizes, Sizes], *more: object) -> Report:
    """Runs `bench posix` with sizes to be tried or to be measured."""
    options, (tried, measured) = machine.options, sizes
    files, small, large = tried if machine.quick else measured
    shape = ["--files", files, "--small", small, "--large", large, "-i", machine.repeats(5)]
    return machine.bench("posix", "--tmpfs", options.memory, "--disk", options.disk, *shape, *more)


def measure_files(machine: Machine) -> Table:
    """Files in a container in memory, compared with tmpfs."""
    report = bench_posix(machine, MEMORY_SIZES, "--path", machine.options.memory)
    disk = disk_of(report)
    table = file_table(report, "tmpfs", [disk], "tmpfs", latencies=True)
    table.columns = ["2 processes; times: 1 process", "tmpfs", *way_headings(), disk]
    return table


def measure_files_on_disk(machine: Machine) -> Table:
    """Files in a container on a disk, compared with the file system of the disk."""
    report = bench_posix(machine, DISK_SIZES, "--path", machine.need_disk(), "--durability", "process")
    disk = disk_of(report)
    table = file_table(report, disk, [], "disk", latencies=False)
    table.columns = ["2 processes", disk, *way_headings()]
    return table


MDTEST = [
    ("create and write", "file-creation"),
    ("stat", "file-stat"),
    ("read", "file-read"),
    ("remove", "file-removal"),
]


def measure_mdtest(machine: Machine) -> Table:
    """Small files in one directory, as mdtest-hard of IO500 has them."""
    options, table = machine.options, Table()
    shape = ["-n", 500 if machine.quick else 5000, "-F", "-w", 3901, "-e", 3901, "-i", machine.repeats(5)]
    report = machine.bench(
        "mdtest", "-a", "DFS", "--procs", 2, *shape, "-d", "/hard", "--path", options.memory, "--tmpfs", options.memory, "--disk", options.disk
    )
    disk = disk_of(report)
    table.columns = ["2 processes, files of 3901 bytes", "DFS", "of tmpfs", f"of {disk}"]
    for what, phase in MDTEST:
        runs = [find(report, store, (what, "mdtest", phase, None, 0), 2) for store in ("DFS", "tmpfs", disk)]
        table.rows.append([what, rate(median_rate(runs[0])), *(ratio(paired(runs[0], base)) for base in runs[1:])])
    return table


def measure_engine_files(machine: Machine) -> Table:
    """Files of a pool that is reached through one engine."""
    report = bench_posix(machine, ENGINE_SIZES, "--engine")
    table = file_table(report, "tmpfs", [], "engine", latencies=True)
    rows = [row[:4] for row in table.rows]
    return Table(rows, table.values)


# --- Start of programs


def started_us(command: list[str], variables: dict[str, str]) -> float:
    """The time that a program takes from its start to its end."""
    begin = time.perf_counter()
    process = os.posix_spawn(command[0], command, variables, file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)])
    _, status = os.waitpid(process, 0)
    time_us = (time.perf_counter() - begin) * 1e6
    if status:
        raise Failed(f"`{' '.join(command)}` ended with status {os.waitstatus_to_exitcode(status)}")
    return time_us


@contextlib.contextmanager
def variables_of_run(variables: dict[str, str], run: list[str]) -> Iterator[dict[str, str]]:
    """The variables of programs under `esker run`, which lasts as long: its directory is removed with it. The container gets a file."""
    command = [*run, "--", "sh", "-c", "touch /esker/file; env -0; echo; read line"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=variables) as process:
        assert process.stdin and process.stdout
        found = ""
        while not found.endswith("\0\n") and (line := process.stdout.readline()):
            found += line
        yield dict(one.split("=", 1) for one in found.rstrip("\n").split("\0") if "=" in one)
        process.stdin.close()


def start_pairs(folder: str) -> list[tuple[str, list[str], list[str]]]:
    """Names of programs, and their commands without and with `esker run`."""
    on_tmpfs = ["/usr/bin/stat", f"{folder}/file"]
    return [
        ("`true`, which accesses no files", ["/bin/true"], ["/bin/true"]),
        ("`stat` of a file on tmpfs", on_tmpfs, on_tmpfs),
        ("`stat` of a file in `/esker`, beside one on tmpfs", on_tmpfs, ["/usr/bin/stat", "/esker/file"]),
    ]


def measure_start(machine: Machine) -> Table:
    """Programs that start with and without `esker run`, in turns."""
    options, table, count = machine.options, Table(), 20 if machine.quick else 300
    machine.commands.append("esker run POOL/CONT -- PROGRAM   # its variables, then posix_spawn of each program with and without them, in turns")
    with tempfile.TemporaryDirectory(dir=options.memory) as folder:
        pathlib.Path(f"{folder}/file").touch()
        variables = dict(os.environ) | {"ESKER_POOLS": folder}
        machine.run([options.esker, "pool", "create", "start", "--size", "256M", "--dir", folder], variables=variables)
        with variables_of_run(variables, [str(options.esker), "run", "start/fs", "--create"]) as run:
            for what, plain, intercepted in start_pairs(folder):
                both = [(started_us(plain, variables), started_us(intercepted, run)) for _ in range(count)]
                bare, under = (statistics.median(times) for times in zip(*both))
                table.rows.append([what, duration(bare), duration(under), ratio(spread_of([under / bare]))])
    return table


def measure_pool_start(machine: Machine) -> Table:
    """The model of how long a pool over many nodes takes to start."""
    with tempfile.TemporaryDirectory(dir=machine.options.memory) as folder:
        machine.commands.append("esker bench start")
        answer = machine.run([machine.options.esker, "--json", "bench", "start", "--dir", folder])
    return pool_start_table(json.loads(answer))


def pool_start_table(answer: dict[str, Any]) -> Table:
    """Times by the number of nodes."""
    response = answer.get("response", answer)
    rows = [[f"{one['nodes']:,}", str(one["depth"]), f"{one['ready_s']:.2g} s", f"{one['total_s']:.2g} s"] for one in response["starts"]]
    return Table(rows)


FILES = {
    "files": Figure(
        [],
        "Ratios are to the same work on tmpfs, iteration by iteration in turns, pool and files on the same tmpfs. Medians of five iterations, "
        "ranges in brackets. Times are medians of single operations.",
        measure_files,
    ),
    "files_on_disk": Figure(
        [],
        "The same with a pool of durability `process` on the disk; ratios are to files on the disk's file system, which are not synced either.",
        measure_files_on_disk,
    ),
    "mdtest": Figure([], "As in mdtest-hard of IO500. Ratios as above, medians of five iterations.", measure_mdtest),
    "start": Figure(
        ["program", "without", "under `esker run`", "ratio"],
        "Medians of 300 starts each.",
        measure_start,
    ),
    "engine_files": Figure(
        ["2 processes; times: 1 process", "tmpfs", "DFS", "`esker run`"],
        "Ratios are to the same work on tmpfs, which needs no engine and no messages. Medians of five iterations, ranges in brackets.",
        measure_engine_files,
    ),
    "pool_start": Figure(
        ["nodes", "depth of the tree", "all ready", "pool created"],
        "A model from times of one machine: a connection takes 500 ms, a round trip 1 ms.",
        measure_pool_start,
    ),
}
