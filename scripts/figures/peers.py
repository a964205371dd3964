"""Figures beside other stores: FDB, Ceph, parallel HDF5, zarr's LocalStore, another S3 server; and through an engine."""

from __future__ import annotations

from collections.abc import Callable

from figure import Figure, Table
from machine import Machine, Skipped
from reports import Report, divided, median_rate, member, over_reports, paired, select
from spread import Spread, digits, mebibytes, rate, ratio, spread_of

# --- Fields

SIZES = [
    ("1 MiB", []),
    ("1 KiB", ["--size", "1KiB", "--params", 16, "--levels", 8, "--steps", 64]),
]
PHASES = [
    ("archive", "archive", None),
    ("retrieve field by field", "retrieve", "python-retrieve"),
    ("retrieve by one request", "retrieve-request", "python-retrieve-request"),
    ("the same as views", None, "python-view-request"),
    ("list", "list", None),
]


def field_rows(table: Table, report: Report, size: str, procs: int) -> None:
    """Rows of all phases: the store beside plain files, FDB and, Python with Python, FDB again."""
    runs = {(run["store"], run["phase"]): run for run in report["runs"] if run["procs"] == procs}
    for what, phase, python in PHASES:
        # A view is the same request, and FDB has no such phase of its own.
        peer_phase = phase or "retrieve-request"
        own, from_python = runs.get(("esker", phase)), runs.get(("esker", python))
        files, fdb = runs.get(("files", "retrieve" if phase == "retrieve-request" else phase)), runs.get(("pyfdb", peer_phase))
        if own is None and from_python is None:
            continue
        table.keep(f"{size} {what} {procs} python", paired(from_python or own, fdb))
        limit = runs.get(("medium", "pwrite" if phase == "archive" else "pread"))
        if phase != "list":
            table.keep(f"{size} {what} {procs} medium", paired(limit, fdb))
        cells = [rate(median_rate(own), ""), ratio(paired(own, files)), ratio(paired(own, fdb)), ratio(paired(from_python, fdb))]
        table.rows.append([f"{size}: {what}", str(procs), *cells])


def measure_fields(machine: Machine) -> Table:
    """Fields by key, beside plain files and, if available, FDB."""
    options, table = machine.options, Table()
    try:
        (version,) = machine.need_package("pyfdb")
        peer: list[object] = ["--peer", "pyfdb", "--python", options.python]
    except Skipped as reason:
        version, peer = "", []
        machine.absent.append(f"FDB needs {reason}")
    if peer and machine.version("esker") is None:
        machine.absent.append("reads from Python need the package esker in that Python")
    for size, shape in SIZES:
        short = machine.short("--steps", 1, "-i", 1) or ["-i", 5]
        shape = shape[:-2] if machine.quick else shape
        report = machine.bench("fields", *shape, "--procs", "1,2", "--no-watch", "--path", options.memory, *short, *peer)
        for procs in (1, 2):
            field_rows(table, report, size, procs)
    fdb = f"times FDB (pyfdb {version})".replace(" (pyfdb )", "")
    table.columns = ["fields of", "processes", "fields/s", "times files", fdb, "from Python, times FDB"]
    return table


def compare(machine: Machine, stores: str, *arguments: object, variables: dict[str, str]) -> Report:
    """The report of a comparison; the figure is skipped if a store cannot be opened."""
    report = machine.bench("compare", "--stores", stores, *arguments, "--path", machine.options.memory, variables=variables)
    for store, reason in report["absent"].items():
        raise Skipped(f"the store {store}, which cannot be opened: {reason}")
    return report


# --- Ceph


def measure_ceph(machine: Machine) -> Table:
    """Field I/O on Ceph beside librados by hand, and a native pool beside a pool on Ceph."""
    options, table = machine.options, Table()
    if not options.ceph:
        raise Skipped("a pool on Ceph (`make ceph-up`, then `--ceph URL`)")
    short, phases = machine.short("--ops", 16), ("write", "read")
    reports = {flight: [machine.bench("rados", options.ceph, "--in-flight", flight, *short) for _ in range(machine.repeats(3))] for flight in (8, 16)}
    by_hand = [over_reports(reports[8], member("bandwidth_mib_s", store="librados", phase=phase)) for phase in phases]
    table.rows.append(["librados by hand, one call at a time", *map(mebibytes, by_hand)])
    for what, flight, store in (
        ("one operation at a time", 8, "esker"),
        ("8 operations in flight", 8, "esker x8"),
        ("16 operations in flight", 16, "esker x16"),
    ):
        shares = [over_reports(reports[flight], member("ratio", store=store, phase=phase)) for phase in phases]
        for phase, share in zip(phases, shares):
            table.keep(f"{what} {phase}", share)
        table.rows.append([f"Field I/O, {what}, of that", *map(ratio, shares)])
    rounds, variables = machine.repeats(5), {"ESKER_BENCH_RADOS": options.ceph}
    report = compare(machine, "native,rados", "--size", "1MiB", "--rounds", rounds, *machine.short("--ops", 16), variables=variables)
    lines = {line["phase"]: line for line in report["compared"]}
    shares = []
    for phase in phases:
        times = [value for name, value in lines[phase]["first_store_over"].items() if "rados" in name]
        shares.append(table.keep(f"native {phase}", spread_of(times)))
    table.rows.append(["a native pool in memory, of a pool on Ceph, Arrays of 1 MiB", *map(ratio, shares)])
    return table


# --- DAOS

DAOS_WORK = [
    ("Arrays of 1 MiB", "array", "1MiB", 128),
    ("Arrays of 8 KiB", "array", "8KiB", 2000),
    ("Key-Values of 64 bytes", "kv", "64", 4000),
]


def measure_daos(machine: Machine) -> Table:
    """A native pool in memory, beside a pool of a DAOS system that is reached by DAOS's own library."""
    options, table = machine.options, Table()
    if not options.daos:
        raise Skipped("a pool of a DAOS system (`--daos URL`, and its library in ESKER_LIBDAOS or where the loader finds it)")
    variables = {"ESKER_BENCH_DAOS": options.daos}
    for what, workload, size, ops in DAOS_WORK:
        for procs in (1, 2):
            ops = 16 if machine.quick else ops
            arguments = ["--workload", workload, "--size", size, "--procs", procs, "--ops", ops, "--rounds", 1]
            reports = [compare(machine, "native,daos", *arguments, variables=variables) for _ in range(machine.repeats(5))]
            spreads = [table.keep(f"{what} {procs} {phase}", over_reports(reports, of_daos(phase))) for phase in ("write", "read")]
            table.rows.append([what, str(procs), *map(ratio, spreads)])
    return table


def of_daos(phase: str) -> Callable[[Report], float | None]:
    """How many times as fast as DAOS the native pool is."""

    def times(report: Report) -> float | None:
        lines = (line["first_store_over"] for line in report["compared"] if line["phase"] == phase)
        return next((value for line in lines for name, value in line.items() if name.startswith("daos")), None)

    return times


# --- Tensors

HDF5 = ["hdf5-filled", "hdf5-unfilled", "hdf5-contiguous", "file", "medium"]
TENSORS = [
    ("1 MiB for each", "tensors-weak", 1 << 20, (1, 2, 4)),
    ("16 MiB for each", "tensors-weak", 16 << 20, (1, 2, 4)),
    ("64 MiB in all", "tensors-strong", 64 << 20, (2, 4)),
]


def measure_tensors(machine: Machine) -> Table:
    """Arrays that processes store together, beside parallel HDF5."""
    table = Table()
    arguments = ["--size", "1MiB,16MiB", "--total", "64MiB", "-i", 1 if machine.quick else 7, "--path", machine.options.memory]
    report = machine.bench("tensors", *arguments)
    about = report["settings"].get("hdf5", {})
    if about.get("absent"):
        machine.absent.append("parallel HDF5 needs `h5pcc` and `mpirun` (Debian: libhdf5-openmpi-dev and openmpi-bin)")
    for what, workload, size, counts in TENSORS:
        for procs in counts:
            for phase, limit in (("put", "pwrite"), ("get", "pread")):
                members = {"workload": workload, "size_bytes": size, "procs": procs}
                own = select(report, store="esker", phase=phase, **members)
                bases = {store: select(report, store=store, phase=limit if store == "medium" else phase, **members) for store in HDF5}
                spreads = [table.keep(f"{what} {procs} {phase} {store}", paired(own, base)) for store, base in bases.items()]
                table.keep(f"{what} {procs} {phase} limit", paired(bases["medium"], bases["hdf5-filled"]))
                table.rows.append([f"{what}: {phase.upper()}", str(procs), *map(ratio, spreads)])
    return table


# --- zarr


def measure_zarr(machine: Machine) -> Table:
    """Arrays of zarr in `esker.zarr.Store`, beside zarr's LocalStore."""
    table = Table()
    version, _ = machine.need_package("zarr", "esker")
    iterations = 1 if machine.quick else 7
    report = machine.bench("zarr", "-i", iterations, "--python", machine.options.python, "--path", machine.options.memory)
    phases = ("write", "read", "list", "commit")
    for size, name in ((64 << 10, "64 KiB"), (1 << 20, "1 MiB")):
        spreads = []
        for phase in phases:
            runs = [select(report, store=store, phase=phase, size_bytes=size) for store in ("esker", "local")]
            spreads.append(table.keep(f"{name} {phase}", paired(*runs)))
        table.rows.append([name, *map(ratio, spreads)])
    table.columns = [f"chunks (zarr {version})", "write", "read", "list", "commit of 16 chunks"]
    return table


# --- S3

S3_ROWS = [
    ("GET", "esker", "xxh3", "get"),
    ("PUT, `--etag xxh3`", "esker", "xxh3", "put"),
    ("the same with a CRC64 behind it", "esker", "xxh3", "put trailer"),
    ("the same with a SHA-256 in the signature", "esker", "xxh3", "put signed"),
    ("PUT, `--etag md5`", "esker", "md5", "put"),
    ("{peer}: GET", "peer", "peer", "get"),
    ("{peer}: PUT", "peer", "peer", "put"),
]


def measure_s3(machine: Machine) -> Table:
    """Objects by S3, beside the HTTP library alone and, if given, another server."""
    options, table, clients = machine.options, Table(), (1, 2)
    name, url = options.peer or ("", "")
    peer = ["--peer", url] if url else []
    if not url:
        machine.absent.append("another S3 server needs its address (`--peer NAME=URL`)")
    short = machine.short("--ops", 4) + ["--rounds", 1]
    reports = [machine.bench("s3", "--path", options.memory, *short, *peer) for _ in range(machine.repeats(5))]

    def share(store: str, workload: str, phase: str, procs: int) -> Callable[[Report], float | None]:
        return member("ratio", store=store, workload=workload, phase=phase, procs=procs)

    for what, store, workload, phase in S3_ROWS:
        spreads = [over_reports(reports, share(store, workload, phase, procs)) for procs in clients]
        if any(spreads):
            table.rows.append([what.format(peer=name), *map(ratio, spreads)])
    for phase in ("get", "put"):
        for procs in clients:
            base = share("peer", "peer", phase, procs)
            for etag in ("xxh3", "md5"):
                table.keep(f"{phase} {etag} {procs}", over_reports(reports, divided(share("esker", etag, phase, procs), base)))
            limit = over_reports(reports, divided(lambda report: 1.0, base))
            table.keep(f"{phase} limit {procs}", limit)
    return table


# --- Through an engine


def engine_spread(reports: list[Report], name: str, phase: str, procs: int, of: str, store: str = "esker") -> Spread | None:
    """The spread of a member over the reports."""
    return over_reports(reports, lambda report: latency_or_member(report, name, phase, procs, of, store))


def latency_or_member(report: Report, name: str, phase: str, procs: int, of: str, store: str) -> float | None:
    """A member of a run, or its median latency."""
    run = select(report, store=store, workload=name, phase=phase, procs=procs)
    if run is None:
        return None
    value: float | None = run["latency_us"]["p50"] if of == "p50" else run[of]
    return value


def measure_engine(machine: Machine) -> Table:
    """Operations through one engine, which is reached over TCP on loopback."""
    table, counts = Table(), (1, 2)
    short = machine.short("--ops", 32, "--iperf3", 0) + ["--rounds", 1]
    reports = [machine.bench("engine", "--path", machine.options.memory, *short) for _ in range(machine.repeats(3))]

    def row(what: str, name: str, phase: str, of: str, cell: Callable[[Spread | None], str], store: str = "esker") -> None:
        table.rows.append([what, *(cell(engine_spread(reports, name, phase, procs, of, store)) for procs in counts)])

    def time_us(spread: Spread | None) -> str:
        return "-" if spread is None else f"{digits(spread.median)} us"

    row("put of 64 bytes, one at a time", "kv x1", "write", "p50", time_us)
    row("get of 64 bytes, one at a time", "kv x1", "read", "p50", time_us)
    row("raw TCP: 64 bytes there and back", "kv x1", "tcp echo", "p50", time_us, "medium")
    row("put of 64 bytes, 16 in flight", "kv x16", "write", "ops_per_s", rate)
    row("get of 64 bytes, 16 in flight", "kv x16", "read", "ops_per_s", rate)
    for flight in (1, 16):
        for phase, limit in (("write", "tcp send"), ("read", "tcp receive")):
            name, what = f"array x{flight}", "one at a time" if flight == 1 else "16 in flight"
            row(f"{phase} of 1 MiB, {what}, of raw TCP", name, phase, "ratio", ratio)
            iperf = [over_reports(reports, of_iperf3(name, phase, procs)) for procs in counts]
            if any(iperf):
                table.rows.append([f"{phase} of 1 MiB, {what}, of iperf3", *map(ratio, iperf)])
    return table


def of_iperf3(name: str, phase: str, procs: int) -> Callable[[Report], float | None]:
    """The share of one stream of iperf3."""
    members = {"workload": name, "procs": procs}
    return divided(member("bandwidth_mib_s", store="esker", phase=phase, **members), member("bandwidth_mib_s", store="medium", phase="iperf3", **members))


PEERS = {
    "fields": Figure(
        [],
        'A flush follows each step. "Files" is one plain file for each field. FDB is driven from Python; the last column drives both from Python. '
        "Medians of five iterations, ranges in brackets.",
        measure_fields,
    ),
    "ceph": Figure(
        ["fields of 1 MiB, 1 process", "write", "read"],
        'Ceph runs one monitor and one OSD in memory (`make ceph-up`) on the same cores. "By hand" is a program that calls librados. '
        "Medians of three runs, ranges in brackets; the last row is a mean of five rounds.",
        measure_ceph,
    ),
    "daos": Figure(
        ["work", "processes", "write or put", "read or get"],
        "How many times as fast a native pool in memory is as a pool of a DAOS system with one engine in memory on the same machine. "
        "Medians of five runs, ranges in brackets.",
        measure_daos,
    ),
    "tensors": Figure(
        ["array", "processes", "HDF5, chunks filled (default)", "chunks never filled", "contiguous", "new file", "of the medium"],
        "How many times as fast the tensor store is. Medians of seven iterations, ranges in brackets.",
        measure_tensors,
    ),
    "zarr": Figure([], "How many times as fast `esker.zarr.Store` is. Medians of seven iterations, ranges in brackets.", measure_zarr),
    "s3": Figure(
        ["objects of 8 MiB, of the HTTP library alone", "one client", "two clients"],
        "Ratios are to the HTTP library, which receives and serves from memory in the same process. Medians of five runs, ranges in brackets.",
        measure_s3,
    ),
    "engine": Figure(
        ["operation", "one client", "two clients"],
        "Clients and engine share the cores and talk over TCP on loopback. Medians of three runs, ranges in brackets.",
        measure_engine,
    ),
}
