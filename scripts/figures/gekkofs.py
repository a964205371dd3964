"""Figures beside GekkoFS: files of programs on a container and on one daemon of GekkoFS, and the time until both have started."""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
import tempfile
import time
from collections.abc import Iterator
from typing import NamedTuple

from figure import Figure, Table
from files import WORK, Sizes, Work, bench_posix, find, rate_cell, started_us, variables_of_run
from machine import Failed, Machine, Skipped
from reports import Report, paired
from spread import Spread, duration, ratio, spread_of

NAME, HOSTS, MOUNT = "GekkoFS", "hosts", "mount"
# The network interface of the daemon, and the longest times until it listens there and until it ends.
LOOPBACK, LISTEN_TIMEOUT_S, END_TIMEOUT_S = "lo", 60.0, 10.0
# Sizes that are tried, and those that are measured.
SIZES = Sizes(100, "256K", "4M"), Sizes(2000, "8M", "64M")
# Programs reach a pool through engines only, as if they ran on another node.
BY_ENGINE = {"ESKER_NODE": "none"}


class Client(NamedTuple):
    """How programs reach a daemon: the directory of its files, and their environment variables."""

    folder: pathlib.Path
    variables: dict[str, str]


def installed(folder: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    """The daemon and the client library of an installed GekkoFS."""
    daemons, clients = (sorted(folder.rglob(name)) for name in ("gkfs_daemon", "libgkfs_intercept.so"))
    if not daemons or not clients:
        raise Skipped("an installed GekkoFS with gkfs_daemon and libgkfs_intercept.so (`--gekkofs FOLDER`)")
    return daemons[0], clients[0]


def version_of(daemon: pathlib.Path) -> str:
    """The version that a daemon prints. It wants its two directories all the same."""
    done = subprocess.run([daemon, "--version", "--rootdir", "/", "--mountdir", "/"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return done.stdout.split("\n")[0].strip() or "of unknown version"


@contextlib.contextmanager
def running(machine: Machine, *options: str) -> Iterator[Client]:
    """A daemon that stores in memory and listens on loopback; it ends with the block."""
    daemon, library = installed(machine.options.gekkofs)
    with tempfile.TemporaryDirectory(dir=machine.options.memory) as name:
        folder = pathlib.Path(name)
        (folder / MOUNT).mkdir()
        words = ["--rootdir", folder / "root", "--mountdir", folder / MOUNT, "--hosts-file", folder / HOSTS]
        log = {"GKFS_DAEMON_LOG_PATH": f"{name}/log"}
        command = [daemon, *words, "--rpc-protocol", "ofi+tcp", "--listen", LOOPBACK, *options]
        with open(f"{name}/output", "w+") as output:
            process = subprocess.Popen(list(map(str, command)), cwd=folder, env=os.environ | log, stdout=output, stderr=output)
            try:
                wait_until_listening(process, folder)
                client = {"LD_PRELOAD": str(library), "LIBGKFS_HOSTS_FILE": f"{name}/{HOSTS}", "LIBGKFS_LOG": "none"}
                yield Client(folder / MOUNT, client)
            finally:
                end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Ends a daemon, which may still be at work."""
    process.terminate()
    try:
        process.wait(END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_until_listening(process: subprocess.Popen[bytes], folder: pathlib.Path) -> None:
    """Waits until a daemon has written its address into the file of hosts, which it does when it listens."""
    end = time.monotonic() + LISTEN_TIMEOUT_S
    hosts = folder / HOSTS
    while not (hosts.exists() and hosts.read_text().endswith("\n")):
        if process.poll() is not None or time.monotonic() > end:
            said = (folder / "output").read_text().strip().split("\n")[-1]
            raise Failed(f"`gkfs_daemon` does not listen: {said or 'it printed nothing'}")
        time.sleep(0.001)


def bench_beside(machine: Machine, client: Client, *arguments: object) -> Report:
    """Measures files of programs on a container and on GekkoFS, in turns."""
    peer: list[object] = ["--peer", f"{NAME}={client.folder}/bench"]
    for name, value in client.variables.items():
        peer += ["--peer-variable", f"{name}={value}"]
    machine.names |= shown_names(client)
    return bench_posix(machine, SIZES, *arguments, *peer)


def shown_names(client: Client) -> dict[str, str]:
    """Arguments of commands that name directories of this machine, and how the page shows them."""
    assignments = {f"{name}={value}": f"{name}={pathlib.Path(value).name}" for name, value in client.variables.items()}
    return assignments | {f"{NAME}={client.folder}/bench": f"{NAME}=DIR"}


# --- Start

TOUCH, STAT = "/usr/bin/touch", "/usr/bin/stat"
START_COMMANDS = [
    "esker pool create start --size 256M --dir DIR --nodes 1 --launcher local",
    "ESKER_NODE=none esker run nodes:DIR/start.map/fs --create -- touch /esker/file   # then stat",
    "LD_PRELOAD=libgkfs_intercept.so LIBGKFS_HOSTS_FILE=hosts touch MOUNT/file   # then stat",
]


def daemon_starts(machine: Machine) -> tuple[float, float]:
    """Microseconds until a new daemon has the first file, and of a program that examines it."""
    begin = time.perf_counter()
    with running(machine) as client:
        variables = os.environ | client.variables
        started_us([TOUCH, f"{client.folder}/file"], variables)
        ready = (time.perf_counter() - begin) * 1e6
        return ready, started_us([STAT, f"{client.folder}/file"], variables)


def engine_starts(machine: Machine) -> tuple[float, float]:
    """Microseconds until a new pool of one node has the first file, and of a program that examines it."""
    esker = str(machine.options.esker)
    with tempfile.TemporaryDirectory(dir=machine.options.memory) as folder:
        variables, pool = dict(os.environ) | {"ESKER_POOLS": folder}, f"nodes:{folder}/start.map"
        begin = time.perf_counter()
        machine.run([esker, "pool", "create", "start", "--size", "256M", "--dir", folder, "--nodes", 1, "--launcher", "local"], variables=variables)
        try:
            started_us([esker, "run", f"{pool}/fs", "--create", "--", TOUCH, "/esker/file"], variables | BY_ENGINE)
            ready = (time.perf_counter() - begin) * 1e6
            with variables_of_run(variables | BY_ENGINE, [esker, "run", f"{pool}/fs"]) as run:
                return ready, started_us([STAT, "/esker/file"], run)
        finally:
            machine.run([esker, "pool", "destroy", "--force", pool], variables=variables)


def start_rows(machine: Machine) -> list[list[str]]:
    """Times of both, in turns."""
    machine.commands += START_COMMANDS
    both = [(daemon_starts(machine), engine_starts(machine)) for _ in range(machine.repeats(5))]
    rows = []
    for at, what in enumerate(("start of the system, until the first file", "`stat` of a file, a program that starts")):
        times = [(daemon[at], engine[at]) for daemon, engine in both]
        shown = [spread_of([pair[side] for pair in times]) for side in (0, 1)]
        share = ratio(spread_of([daemon / engine for daemon, engine in times]))
        rows.append([what, "-", *("-" if one is None else duration(one.median) for one in shown), share, "-", "-"])
    return rows


# --- The table


def add_work(table: Table, by_engine: dict[int, Report], native: Report) -> None:
    """Rows of all work: rates of one process, and ratios to GekkoFS, iteration by iteration."""
    for work in WORK:
        rates = [rate_cell(work, find(by_engine[1], system, work, 1)) for system in ("tmpfs", NAME, "run")]
        reports = {f"engine {procs}": (report, procs) for procs, report in by_engine.items()} | {"native 1": (native, 1)}
        shares = [table.keep(f"{work[0]} {name}", times_faster(report, work, procs)) for name, (report, procs) in reports.items()]
        table.rows.append([work[0], *rates, *map(ratio, shares)])


def times_faster(report: Report, work: Work, procs: int) -> Spread | None:
    """How many times as fast as GekkoFS programs under `esker run` are."""
    return paired(find(report, "run", work, procs), find(report, NAME, work, procs))


def measure_gekkofs(machine: Machine) -> Table:
    """Files of programs that reach one engine beside those on GekkoFS by TCP, and of a native pool beside GekkoFS by shared memory."""
    if not machine.options.gekkofs:
        raise Skipped("an installed GekkoFS (`--gekkofs FOLDER`)")
    table = Table()
    daemon, _ = installed(machine.options.gekkofs)
    note_daemon(machine)
    with running(machine) as client:
        by_engine = {procs: bench_beside(machine, client, "--engine", "--procs", procs) for procs in (1, 2)}
    note_daemon(machine, "--auto-sm")
    with running(machine, "--auto-sm") as client:
        native = bench_beside(machine, client, "--procs", 1, "--path", machine.options.memory)
    add_work(table, by_engine, native)
    table.rows += start_rows(machine)
    table.columns = columns(version_of(daemon))
    return table


def note_daemon(machine: Machine, *options: str) -> None:
    """Remembers how a daemon was started."""
    words = ["gkfs_daemon --rootdir ROOT --mountdir MOUNT --hosts-file HOSTS --rpc-protocol ofi+tcp --listen", LOOPBACK, *options]
    machine.commands.append(" ".join(words))


def columns(version: str) -> list[str]:
    """The headings of the table."""
    return [
        "1 process",
        "tmpfs",
        f"GekkoFS {version}",
        "`esker run` by an engine",
        "times GekkoFS",
        "2 processes, times GekkoFS",
        "native pool, times GekkoFS by shared memory",
    ]


GEKKOFS = {
    "gekkofs": Figure(
        [],
        "Both store on the same tmpfs. Programs reach one daemon of GekkoFS, or one engine of Esker, over TCP on loopback; in the last column, "
        "the daemon by shared memory, and a pool of this node without an engine. Rates are medians of five iterations in turns, ratios those of the same "
        "iteration with their ranges in brackets. The last two rows are medians of five starts.",
        measure_gekkofs,
    ),
}
