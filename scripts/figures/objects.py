"""Figures of Arrays and Key-Values, beside the raw medium."""

from __future__ import annotations

import pathlib
import tempfile

from figure import Figure, Table
from machine import ROOT, Failed, Machine
from reports import Report, Run, member, over_reports, select
from spread import Spread, duration, mebibytes, quantity, rate, ratio, spread_of

SMALL = ["--size", "8KiB"]

# Name in the table, name in charts, and arguments of each workload.
WORKLOADS = [
    ("Arrays of 1 MiB, each noted in a Key-Value", "1 MiB", ["array", "--indexed"]),
    ("Arrays of 8 KiB", "8 KiB", ["array", *SMALL]),
    ("Arrays of 8 KiB, each noted in a Key-Value", "8 KiB indexed", ["array", "--indexed", *SMALL]),
    ("Key-Value, 64 bytes", "64 bytes", ["kv"]),
]


def store_cells(table: Table, name: str, reports: list[Report], procs: int) -> list[str]:
    """Rates and shares of the limit, for writes and reads."""
    cells = []
    for phase in ("write", "read"):
        run = {"store": "esker", "phase": phase, "procs": procs}
        share = over_reports(reports, member("ratio", **run))
        cells += [rate(over_reports(reports, member("ops_per_s", **run))), ratio(table.keep(f"{name} {phase} {procs}", share))]
    return cells


def c_api_row(machine: Machine) -> list[str]:
    """The Key-Value through the C API: examples/c/kv_rate.c."""
    options = machine.options
    with tempfile.TemporaryDirectory(dir=options.memory) as folder:
        library, program, pools = f"{folder}/lib", f"{folder}/kv_rate", pathlib.Path(f"{folder}/pools")
        pools.mkdir()
        machine.run([ROOT / "scripts/lay-out-library.sh", options.libdaos, library])
        machine.run(
            ["cc", "-O2", f"-I{ROOT}/include", ROOT / "examples/c/kv_rate.c", "-o", program, f"-L{library}", "-ldaos", "-luuid", f"-Wl,-rpath,{library}"]
        )
        machine.run([options.esker, "pool", "create", "figures", "--size", "1G", "--dir", pools])
        machine.run([options.esker, "cont", "create", f"esker:{pools}/figures", "rate"])
        machine.commands.append("kv_rate POOL CONT   # examples/c/kv_rate.c")
        printed = machine.run([program, *machine.short("--ops", "20000"), f"esker:{pools}/figures", "rate"])
    put, get = (float(line.split(",")[1].split()[0]) for line in printed.splitlines()[:2])
    return ["the same through the C API (`examples/c/kv_rate.c`)", "tmpfs", "1", quantity(put, "/s"), "-", quantity(get, "/s"), "-"]


def measure_store(machine: Machine) -> Table:
    """Arrays and Key-Values on tmpfs and on a disk, several times."""
    options, table, disk = machine.options, Table(), machine.need_disk()
    short = machine.short("--ops", 64, "--rounds", 1) or ["--rounds", 2]

    def rows(what: str, name: str, medium: str, procs: tuple[int, ...], *arguments: object) -> None:
        counts = ["--procs", ",".join(map(str, procs))]
        reports = [machine.bench(*arguments, *counts, *short) for _ in range(machine.repeats(5))]
        for at, count in enumerate(procs):
            cells = store_cells(table, f"{medium} {name}", reports, count)
            table.rows.append([*([what, medium] if at == 0 else ["", ""]), str(count), *cells])

    for what, name, arguments in WORKLOADS:
        rows(what, name, "tmpfs", (1, 2), *arguments, "--path", options.memory)
    try:
        table.rows.append(c_api_row(machine))
    except (Failed, OSError):
        machine.absent.append("the C API needs `cc` and the headers of libuuid")
    for what, name, arguments in WORKLOADS:
        rows(what, name, "disk", (1, 2), *arguments, "--path", disk, "--durability", "process")
    for what, name, arguments in WORKLOADS:
        rows(what, name, "disk, `commit`", (1, 2), *arguments, "--path", disk, "--durability", "commit")
    return table


LATENCIES = [
    ("put of 64 bytes", "kv", "esker", "write"),
    ("get of 64 bytes", "kv", "esker", "read"),
    ("pwrite of 64 bytes", "kv", "medium", "pwrite"),
    ("write of 8 KiB", "array", "esker", "write"),
    ("read of 8 KiB", "array", "esker", "read"),
    ("pwrite of 8 KiB", "array", "medium", "pwrite"),
    ("pread of 8 KiB", "array", "medium", "pread"),
]


def measure_latency(machine: Machine) -> Table:
    """Times of single operations: most of them, and the slowest."""
    table, procs = Table(), (1, 2, 8)
    short = machine.short("--ops", 1000, "--rounds", 1) or ["--rounds", 2]
    counts = ["--procs", ",".join(map(str, procs)), "--path", machine.options.memory, *short]
    repeats = range(machine.repeats(3))
    reports = {"kv": [machine.bench("kv", *counts) for _ in repeats], "array": [machine.bench("array", *SMALL, *counts) for _ in repeats]}
    for what, kind, store, phase in LATENCIES:
        cells = []
        for count in procs:
            runs = [run for run in (select(report, store=store, phase=phase, procs=count) for report in reports[kind]) if run]
            parts = {part: spread_of([run["latency_us"][part] for run in runs]) for part in ("p50", "p99", "p99_9")}
            for part, spread in parts.items():
                table.keep(f"{what} {count} {part}", spread)
            cells.append(", ".join(f"{spread.median:.3g}" if spread.median < 1000 else f"{spread.median:.0f}" for spread in parts.values() if spread) or "-")
        table.rows.append([what, *cells])
    return table


def measure_huge_pages(machine: Machine) -> Table:
    """The same commands with and without huge pages."""
    memory, table = machine.options.memory, Table()
    fresh = ["array", "--indexed", "--fresh", "--rounds", 1, "--path", memory, *machine.short("--ops", 64)]
    field_io = ["field-io", "--procs", 2, "--path", memory, *machine.short("--ops", 32, "--repeat", 1)]
    fields = ["fields", "--procs", 2, "--no-watch", "--path", memory, *machine.short("--steps", 1, "-i", 1)]

    def row(what: str, arguments: list[object], phases: tuple[str, str], procs: int) -> None:
        cells = []
        for huge in (False, True):
            reports = [machine.bench(*arguments, *(["--huge-pages"] if huge else []), small_pages=not huge) for _ in range(machine.repeats(3))]
            cells += [ratio(over_reports(reports, member("ratio", store="esker", phase=phase, procs=procs))) for phase in phases]
        table.rows.append([what, *cells])

    row("512 Arrays of 1 MiB, indexed, by a process that has just started", fresh, ("write", "read"), 1)
    row("Field I/O, full, pattern A, 2 processes, 1 MiB", field_io, ("write", "read"), 2)
    row("fields of 1 MiB archived and retrieved by one request, 2 processes", fields, ("archive", "retrieve-request"), 2)
    return table


STORES = ("native", "posix", "files")


def spread_in(run: Run | None, name: str) -> Spread | None:
    """The spread of a quantity that a run has for each of its rounds."""
    found = ((run or {}).get("repeat") or {}).get(name)
    if found:
        return Spread(found["median"], found["min"], found["max"])
    return spread_of([run[name]]) if run and run.get(name) is not None else None


def measure_compare(machine: Machine) -> Table:
    """Native pools, pools of files and plain files."""
    short = machine.short("--ops", 64) + ["--rounds", machine.repeats(5)]
    report = machine.bench("compare", "--stores", ",".join(STORES), "--procs", 2, "--size", "1MiB,8KiB", "--path", machine.options.memory, *short)
    table = Table()
    for size, name in ((1 << 20, "1 MiB"), (8 << 10, "8 KiB")):
        for phase in ("write", "read"):
            runs = [select(report, store=store, phase=phase, size_bytes=size) for store in STORES]
            table.rows.append([f"{phase} {name}", *(ratio(spread_in(run, "ratio")) for run in runs)])
    return table


def measure_field_io(machine: Machine) -> Table:
    """Field I/O, with and without containers."""
    short = machine.short("--ops", 32) + ["--repeat", machine.repeats(5)]
    report = machine.bench("field-io", "--procs", 2, "--mode", "full,no-containers", "--path", machine.options.memory, *short)
    table, bandwidth = Table(), "global_timing_bandwidth_mib_s"
    for mode, what in (("full", "full: containers, two indexes and an Array for each field"), ("no-containers", "without containers")):
        runs = [select(report, store="esker", mode=mode, phase=phase) for phase in ("write", "read")]
        cells = [cell for run in runs for cell in (mebibytes(spread_in(run, bandwidth)), ratio(spread_in(run, "ratio")))]
        table.rows.append([what, *cells])
    return table


def measure_growth(machine: Machine) -> Table:
    """Rates at more and more entries."""
    entries = [1000, 10_000] if machine.quick else [10_000, 100_000, 1_000_000, 10_000_000]
    arguments = ["growth", "--entries", ",".join(map(str, entries)), "--path", machine.options.memory, *machine.short("--ops", 500)]
    reports = [machine.bench(*arguments) for _ in range(machine.repeats(3))]
    table = Table()
    for count in entries:
        cells = []
        for kind in ("kv", "array"):
            for phase in ("put", "get"):
                run = {"store": "esker", "workload": kind, "phase": phase, "entries": count}
                cells.append(rate(table.keep(f"{kind} {phase} {count}", over_reports(reports, member("ops_per_s", **run)))))
                share = table.keep(f"{kind} {phase} {count} share", over_reports(reports, member("ratio", **run)))
                cells += [ratio(share)] if kind == "kv" else []
        opening = spread_of([opening_us(report, count) for report in reports])
        table.rows.append([f"{count:,}", *cells, "-" if opening is None else duration(opening.median)])
    return table


def opening_us(report: Report, entries: int) -> float | None:
    """The median time to open a pool with that many keys, in microseconds."""
    run = select(report, store="esker", workload="kv", phase="open", entries=entries)
    return None if run is None else float(run["latency_us"]["p50"])


OF_MEDIUM = "pwrite and pread of the same blocks by as many processes, into a file on the same medium that was written before"

OBJECTS = {
    "store": Figure(
        ["what", "medium", "processes", "write", "of the limit", "read", "of the limit"],
        f"Ratios are to {OF_MEDIUM}; for `commit`, to pwrite and fdatasync. Medians of five runs, ranges in brackets.",
        measure_store,
    ),
    "latency": Figure(
        ["tmpfs", "1 process", "2 processes", "8 processes"],
        "Times are p50, p99 and p99.9 in microseconds, medians of three runs.",
        measure_latency,
    ),
    "growth": Figure(
        ["entries", "Key-Value: put", "of the limit", "get", "of the limit", "objects: put", "get", "open the pool"],
        "One process, values of 64 bytes, entries chosen at random. Ratios are to pwrite and pread in a file with as many entries. Medians of three runs.",
        measure_growth,
    ),
    "huge_pages": Figure(
        ["what", "small pages: write", "read", "huge pages: write", "read"],
        f"Ratios are to {OF_MEDIUM}. Medians of three runs, ranges in brackets.",
        measure_huge_pages,
    ),
    "compare": Figure(
        ["2 processes, tmpfs", "native", "`posix:`", "plain files"],
        f"Ratios are to {OF_MEDIUM}, in turns with the stores. Medians of five rounds, ranges in brackets. Plain files are one file per object.",
        measure_compare,
    ),
    "field_io": Figure(
        ["2 processes, fields of 1 MiB, tmpfs", "write", "of the limit", "read", "of the limit"],
        f"Ratios are to {OF_MEDIUM}. Medians of five repeats, ranges in brackets.",
        measure_field_io,
    ),
}
