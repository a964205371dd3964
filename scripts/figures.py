#!/usr/bin/env python3
"""Measured figures: docs/figures.json holds them, docs/performance.md and docs/figures.svg show them.

usage: figures.py measure ESKER LIBDAOS [--quick] [--only NAMES] [--memory DIR] [--disk DIR] [--python PYTHON] [--ceph URL] [--keep]
       figures.py render
       figures.py check

`measure` runs the commands of every figure on this machine and writes the tables, the chart and all reports to
build/figures. With --keep it writes to docs instead and replaces the figures there. --quick takes few measurements, to
test that everything runs; its figures are meaningless. --python names a Python with pyfdb and esker, --ceph the URL of
a pool on Ceph; figures that need them are left out without them, as are figures whose command fails.

`render` writes the tables and the chart from docs/figures.json; `check` fails if they differ from it.
"""

import argparse
import ctypes
import datetime
import io
import json
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
DATA, PAGE, CHART = "figures.json", "performance.md", "figures.svg"
PR_SET_THP_DISABLE = 41

# Position of labels, left of the smallest ratio.
LEFT = 0.0016


# --- Rendering


def table_lines(columns, rows):
    """A table in Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return ["| " + " | ".join(cells) + " |" for cells in lines]


def section_lines(table):
    """The text between the marks of a table on the page."""
    commands = ["    " + command for command in table["commands"]]
    shown = f"Ratios are to {table['ratio']}" if table.get("ratio") else table["shown"]
    facts = [f"{shown}.", f"Measured on: {table['machine']}; {table['measured']}."]
    return ["", *commands, "", *facts, "", *table_lines(table["columns"], table["rows"]), ""]


def render_page(page, tables):
    """The page with every table between its marks replaced."""

    def section(match):
        return "\n".join([match[1], *section_lines(tables[match[2]]), match[3]])

    return re.sub(r"(<!-- figure: (\w+) -->)\n.*?\n(<!-- end -->)", section, page, flags=re.DOTALL)


def numbers(cell):
    """The numbers of a cell: a single one, or the two ends of a range."""
    return [float(number) for number in re.findall(r"\d+(?:\.\d+)?", cell)]


def bars(data):
    """Label, group and value of each bar; cells without a number are left out."""
    for group in data["chart"]["groups"]:
        for label, name, row, column in group["bars"]:
            rows = data["tables"].get(name, {"rows": []})["rows"]
            values = numbers(rows[row][column]) if row < len(rows) else []
            if values:
                yield label, group["beside"], statistics.mean(values)


def render_chart(data):
    """Every ratio as a bar from 1, on a logarithmic scale, as the text of an SVG file."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "esker", "font.family": "sans-serif", "font.size": 9})
    drawn = list(bars(data))
    groups = list(dict.fromkeys(beside for _, beside, _ in drawn))
    height = len(drawn) + 1.2 * len(groups)
    figure, axes = pyplot.subplots(figsize=(8, 0.21 * height + 0.5))
    y, heads = 0.0, []
    for group in groups:
        heads.append((y, group))
        for label, _, value in (bar for bar in drawn if bar[1] == group):
            y += 1
            axes.barh(y, value - 1, left=1, height=0.7, color="#2b6a99" if value >= 1 else "#c07a35")
            axes.text(value * (1.04 if value >= 1 else 0.96), y, f"{value:.3g}", va="center", ha="left" if value >= 1 else "right")
            axes.text(LEFT, y, label, va="center", ha="left")
        y += 1.4
    for head, group in heads:
        axes.text(LEFT, head, group, va="center", ha="left", fontweight="bold")
    axes.set_xscale("log")
    axes.set_xlim(LEFT, 60)
    axes.set_xlabel("rate of Esker, as a multiple of the other's in the same run")
    axes.set_ylim(y - 0.6, -0.9)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xticks([0.04, 0.1, 0.25, 0.5, 1, 2, 4, 10, 25], ["1/25", "1/10", "1/4", "1/2", "equal", "2x", "4x", "10x", "25x"])
    axes.minorticks_off()
    axes.set_yticks([])
    axes.spines[["left", "right", "top"]].set_visible(False)
    figure.tight_layout(pad=0.3)
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return re.sub(r"[ \t]+$", "", text.getvalue(), flags=re.MULTILINE)


def rendered(data, page):
    """The files that are generated from the figures."""
    return {PAGE: render_page(page, data["tables"]), CHART: render_chart(data)}


def read_docs():
    """The recorded figures, and the page that shows them."""
    return json.loads((ROOT / "docs" / DATA).read_text()), (ROOT / "docs" / PAGE).read_text()


def write(folder, data, files):
    """Writes all of them into a directory."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / DATA).write_text(json.dumps(data, indent=1) + "\n")
    for name, text in files.items():
        (folder / name).write_text(text)


# --- Measuring


class Skipped(Exception):
    """The reason why a figure cannot be measured on this machine."""


class Machine:
    """Runs the benchmarks, and keeps their reports."""

    def __init__(self, options):
        self.options, self.reports = options, ROOT / "build" / "figures" / "reports"
        shutil.rmtree(self.reports, ignore_errors=True)
        self.reports.mkdir(parents=True)
        self.host, self.media, self.commands, self.count = None, {}, [], 0

    def bench(self, *arguments, small_pages=False):
        """The report of `esker bench ARGUMENTS`."""
        self.count += 1
        report = self.reports / f"{self.count:02}-{arguments[0]}.json"
        command = ["bench", *map(str, arguments)]
        shown = ["DISK" if word == str(self.options.disk) else word for word in command]
        self.commands.append("esker " + " ".join(shown) + ("   # without huge pages" if small_pages else ""))
        print("---", self.commands[-1], flush=True)
        self.run([self.options.esker, *command, "--json", report], small_pages)
        found = json.loads(report.read_text())
        self.host = found.get("host", self.host)
        self.media[self.host["file_system"]] = True
        return found

    def run(self, command, small_pages=False):
        """The output of a command; the figure is skipped if it fails."""
        before = no_huge_pages if small_pages else None
        done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, preexec_fn=before)
        if done.returncode != 0:
            raise Skipped(f"{command[0]} ended with status {done.returncode}")
        return done.stdout

    def describe(self):
        """The machine, in one line."""
        host = self.host
        quick = "; --quick, so these figures mean nothing" if self.options.quick else ""
        kernel = ".".join(host["kernel"].split(".")[:2])
        return f"{host['cpus']} CPUs, {host['cpu']}, Linux {kernel}, {' and '.join(self.media)}{quick}"


def no_huge_pages():
    """Turns off huge pages for this process and its children."""
    ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)


def quantity(number, unit=""):
    """Three digits, with a letter for thousands."""
    for letter, scale in (("M", 1e6), ("k", 1e3)):
        if number >= scale:
            return f"{number / scale:.3g} {letter}{unit}"
    return f"{number:.3g} {unit}".strip()


def microseconds(number):
    """Three digits, but never fewer than the whole ones."""
    return f"{number:.3g}" if number < 1000 else f"{number:.0f}"


def ratio(number):
    """A ratio with two decimals, or none."""
    return "-" if number is None else f"{number:.2f}" if number < 10 else f"{number:.0f}"


def runs_of(report, store="esker"):
    """The runs of a store by processes and phase."""
    return {(run["procs"], run["phase"]): run for run in report["runs"] if run["store"] == store}


def store_rows(machine, what, *arguments):
    """A row for each number of processes: rates, and shares of the limit."""
    runs = runs_of(machine.bench(*arguments))
    procs = sorted({processes for processes, _ in runs})
    cells = [[cell for phase in ("write", "read") for cell in (quantity(runs[n, phase]["ops_per_s"], "/s"), ratio(runs[n, phase]["ratio"]))] for n in procs]
    return [[what if at == 0 else "", str(n), *row] for at, (n, row) in enumerate(zip(procs, cells))]


def c_api_row(machine):
    """The Key-Value through the C API: examples/c/kv_rate.c."""
    options = machine.options
    with tempfile.TemporaryDirectory(dir=options.memory) as folder:
        library, program, pool = f"{folder}/lib", f"{folder}/kv_rate", f"{folder}/pools/figures"
        pathlib.Path(f"{folder}/pools").mkdir()
        machine.run([ROOT / "scripts/lay-out-library.sh", options.libdaos, library])
        machine.run(
            ["cc", "-O2", f"-I{ROOT}/include", ROOT / "examples/c/kv_rate.c", "-o", program, f"-L{library}", "-ldaos", "-luuid", f"-Wl,-rpath,{library}"]
        )
        machine.run([options.esker, "pool", "create", "figures", "--size", "1G", "--dir", f"{folder}/pools"])
        machine.run([options.esker, "cont", "create", f"esker:{pool}", "rate"])
        machine.commands.append("kv_rate POOL CONT   # examples/c/kv_rate.c")
        said = machine.run([program, *(["--ops", "20000"] if options.quick else []), f"esker:{pool}", "rate"])
    rates = [float(line.split(",")[1].split()[0]) for line in said.splitlines()]
    return ["the same through the C API (`examples/c/kv_rate.c`)", "1", quantity(rates[0], "/s"), "-", quantity(rates[1], "/s"), "-"]


def measure_store(machine):
    """Arrays and Key-Values, compared with pwrite and pread."""
    options = machine.options
    short = ["--ops", 64, "--rounds", 1] if options.quick else []
    memory, disk = ["--path", options.memory, *short], ["--path", options.disk, *short]
    small = ["--size", "8KiB", "--procs", "1,2"]
    on_disk = "on disk, `{}`, {}"
    return [
        *store_rows(machine, "tmpfs, Arrays of 1 MiB, each noted in a Key-Value", "array", "--indexed", "--procs", "1,2", *memory),
        *store_rows(machine, "tmpfs, Arrays of 8 KiB", "array", *small, *memory),
        *store_rows(machine, "tmpfs, Arrays of 8 KiB, each noted in a Key-Value", "array", "--indexed", *small, *memory),
        *store_rows(machine, "tmpfs, Key-Value, 64 bytes", "kv", "--procs", "1,2", *memory),
        c_api_row(machine),
        *store_rows(machine, on_disk.format("process", "Arrays of 1 MiB with an index"), "array", "--indexed", "--durability", "process", *disk),
        *store_rows(machine, on_disk.format("commit", "Arrays of 1 MiB with an index"), "array", "--indexed", "--durability", "commit", *disk),
        *store_rows(machine, on_disk.format("commit", "Key-Value, 64 bytes"), "kv", "--durability", "commit", *disk),
    ]


def medians(of_each):
    """Column by column, the median of several runs and their range."""
    spread = [(statistics.median(values), min(values), max(values)) for values in zip(*of_each)]
    return [f"{middle:.2g} ({low:.2g} to {high:.2g})" for middle, low, high in spread]


def measure_huge_pages(machine):
    """The same commands with and without huge pages."""
    quick, memory = machine.options.quick, machine.options.memory
    repeats = 1 if quick else 5
    fresh = ["array", "--indexed", "--fresh", "--rounds", 1, "--path", memory, *(["--ops", 64] if quick else [])]
    field_io = ["field-io", "--procs", 2, "--path", memory, *(["--ops", 32, "--repeat", 1] if quick else [])]
    fields = ["fields", "--procs", 2, "--no-watch", "--path", memory, *(["--steps", 1, "-i", 1] if quick else [])]

    def shares(arguments, store, phases, procs, huge):
        runs = runs_of(machine.bench(*arguments, *(["--huge-pages"] if huge else []), small_pages=not huge), store)
        return [runs[procs, phase]["ratio"] for phase in phases]

    def row(what, *which):
        return [what, *(cell for huge in (False, True) for cell in medians([shares(*which, huge) for _ in range(repeats)]))]

    return [
        row(
            "512 Arrays of 1 MiB, indexed, by a process that has just started (`bench array --indexed --fresh --rounds 1`)",
            fresh,
            "esker",
            ("write", "read"),
            1,
        ),
        row("Field I/O, full, pattern A, 2 processes, 1 MiB (`bench field-io --procs 2`)", field_io, "esker", ("write", "read"), 2),
        row(
            "fields of 1 MiB archived and retrieved by one request, 2 processes (`bench fields --procs 2`)", fields, "esker", ("archive", "retrieve-request"), 2
        ),
    ]


SMALL = ["--size", "8KiB"]


def measure_small(machine):
    """Small values, Arrays and fields, several times."""
    options, rows = machine.options, []
    repeats = 1 if options.quick else 5
    short = ["--ops", 1000, "--rounds", 1] if options.quick else []
    both = ["--procs", "1,2"]

    def store(what, *arguments):
        for where, place in (("tmpfs", ["--path", options.memory]), ("disk", ["--path", options.disk, "--durability", "process"])):
            found = [runs_of(machine.bench(*arguments, *both, *place, *short)) for _ in range(repeats)]
            for procs in (1, 2):
                shares = ([runs[procs, phase]["ratio"] for phase in ("write", "read")] for runs in found)
                rows.append([f"{what}, {where}", str(procs), *medians(shares), "pwrite, pread"])

    def fields():
        few = ["--steps", 1, "-i", 1] if options.quick else ["--steps", 64, "-i", 5]
        shape = ["--size", "1KiB", "--params", 16, "--levels", 8, "--no-watch"]
        found = [runs_of(machine.bench("fields", *shape, *both, "--path", options.memory, *few)) for _ in range(repeats)]
        for procs in (1, 2):
            for what, phases in (("field by field", ("archive", "retrieve")), ("by one request", ("archive", "retrieve-request"))):
                shares = ([runs[procs, phase]["ratio_to"]["files"] for phase in phases] for runs in found)
                rows.append([f"fields of 1 KiB, {what}, tmpfs", str(procs), *medians(shares), "plain files"])

    store("Key-Value, 64 bytes", "kv")
    store("Arrays of 8 KiB", "array", *SMALL)
    store("Arrays of 8 KiB, each noted in a Key-Value", "array", "--indexed", *SMALL)
    fields()
    machine.commands = list(dict.fromkeys(machine.commands))
    return rows


def measure_latency(machine):
    """How long single operations take: most of them, and the slowest."""
    options = machine.options
    short = ["--ops", 1000, "--rounds", 1] if options.quick else []
    procs = (1, 2, 8)
    counts = ["--procs", ",".join(map(str, procs)), "--path", options.memory, *short]
    kv, arrays = runs_of(machine.bench("kv", *counts)), machine.bench("array", *SMALL, *counts)

    def row(what, runs, phase):
        times = [runs[n, phase]["latency_us"] for n in procs]
        return [what, *(", ".join(microseconds(time[part]) for part in ("p50", "p99", "p99_9")) for time in times)]

    return [
        row("put of 64 bytes", kv, "write"),
        row("get of 64 bytes", kv, "read"),
        row("write of 8 KiB", runs_of(arrays), "write"),
        row("read of 8 KiB", runs_of(arrays), "read"),
        row("pwrite of 8 KiB", runs_of(arrays, "medium"), "pwrite"),
    ]


def measure_compare(machine):
    """Native pools, pools of files and plain files."""
    short = ["--ops", 64, "--rounds", 1] if machine.options.quick else []
    report = machine.bench("compare", "--stores", "native,posix,files", "--procs", 2, "--size", "1MiB,8KiB", "--path", machine.options.memory, *short)
    sizes = {1 << 20: "1 MiB", 8 << 10: "8 KiB"}
    found = {(row["phase"], row["size_bytes"]): row["ratio_to_limit"] for row in report["compared"]}
    return [
        [f"{phase} {name}", *(ratio(found[phase, size][store]) for store in ("native", "posix", "files"))]
        for size, name in sizes.items()
        for phase in ("write", "read")
    ]


def measure_files(machine):
    """Files in a container, for each way of accessing them, compared with tmpfs and the disk."""
    options = machine.options
    short = ["--files", 1000, "--small", "4M", "--large", "16M", "-i", 1] if options.quick else []
    report = machine.bench("posix", "--tmpfs", options.memory, "--disk", options.disk, *short)
    rows = []
    for row in (row for row in report["table"] if row["unit"] != "ratio"):
        disk = [name for name in row["sites"] if name not in ("DFS", "run", "mount")]
        sites = [row["sites"].get(name) for name in ("DFS", "run", "mount", *disk)]
        is_time = row["unit"] == "us"
        base = quantity(row["base"], "/s") if row["unit"] in ("ops/s", "/s") else f"{row['base']:.3g} us" if is_time else f"{row['base']:.0f} {row['unit']}"
        rows.append([row["work"], base, *("-" if value is None else f"{value:.3g} us" if is_time else ratio(value) for value in sites)])
    return rows


def measure_fields(machine):
    """Fields by key, compared with plain files and, if available, FDB."""
    options = machine.options
    peer = ["--peer", "pyfdb", "--python", options.python] if options.python else []
    short = ["--steps", 1, "-i", 1] if options.quick else ["-i", 5]
    runs = runs_of(machine.bench("fields", "--procs", "1,2", "--no-watch", "--path", options.memory, *short, *peer))
    phases = {"archive": "archive, flushed by step", "retrieve": "retrieve field by field", "retrieve-request": "retrieve by one request", "list": "list"}
    rows = []
    for phase, name in phases.items():
        for at, procs in enumerate((1, 2)):
            run = runs[procs, phase]
            beside = [ratio(run["ratio_to"].get(other)) for other in ("files", "pyfdb")]
            rows.append([name if at == 0 else "", str(procs), quantity(run["rate"]["median"]), *beside])
    return rows


def measure_field_io(machine):
    """Field I/O, with and without containers."""
    short = ["--ops", 32, "--repeat", 1] if machine.options.quick else []
    report = machine.bench("field-io", "--procs", 2, "--mode", "full,no-containers", "--path", machine.options.memory, *short)
    found = {(run["mode"], run["phase"]): run for run in report["runs"] if run["store"] == "esker"}
    phases = ("write", "read")
    rate = "global_timing_bandwidth_mib_s"
    return [
        ["full, of what it reaches without containers", *(ratio(found["full", phase][rate] / found["no-containers", phase][rate]) for phase in phases)],
        ["full, of pwrite and pread", *(ratio(found["full", phase]["ratio"]) for phase in phases)],
    ]


def measure_ceph(machine):
    """Field I/O on Ceph, compared with direct use of librados."""
    options = machine.options
    if not options.ceph:
        raise Skipped("no pool on Ceph is given (--ceph)")
    short = ["--ops", 16, "--rounds", 1] if options.quick else []
    rows = []
    for flight in (8, 16):
        report = machine.bench("rados", options.ceph, "--in-flight", flight, *short)
        found = {(run["store"], run["phase"]): run for run in report["runs"]}
        phases = ("write", "read")
        if not rows:
            rows = [
                ["librados by hand", *(f"{found['librados', phase]['bandwidth_mib_s']:.0f} MiB/s" for phase in phases)],
                ["Field I/O, one operation at a time", *(ratio(found["esker", phase]["ratio"]) for phase in phases)],
            ]
        rows.append([f"Field I/O, {flight} operations in flight", *(ratio(found[f"esker x{flight}", phase]["ratio"]) for phase in phases)])
    return rows


FIGURES = {
    "store": measure_store,
    "small": measure_small,
    "latency": measure_latency,
    "huge_pages": measure_huge_pages,
    "compare": measure_compare,
    "files": measure_files,
    "fields": measure_fields,
    "field_io": measure_field_io,
    "ceph": measure_ceph,
}


def measure(options):
    """Measures the requested figures, and writes the results."""
    kept, page = read_docs()
    machine, tables = Machine(options), {}
    for name in options.only or FIGURES:
        machine.commands, machine.media = [], {}
        try:
            rows = FIGURES[name](machine)
        except (Skipped, KeyError) as reason:
            print(f"--- {name} is left out: {reason}", file=sys.stderr)
            continue
        today = datetime.date.today().strftime("%-d %B %Y")
        tables[name] = kept["tables"][name] | {"machine": machine.describe(), "measured": today, "commands": machine.commands, "rows": rows}
        print("\n".join(table_lines(tables[name]["columns"], rows)), flush=True)
    data = kept | {"tables": kept["tables"] | tables if options.keep else tables}
    left = page if options.keep else only_measured(page, tables)
    folder = ROOT / ("docs" if options.keep else "build/figures")
    write(folder, data, rendered(data, left))
    print(f"--- tables: {folder / PAGE}, chart: {folder / CHART}, reports: {machine.reports}")
    return 0 if tables else 1


def only_measured(page, tables):
    """The page without the figures that were not measured."""
    sections = re.findall(r"^## [^\n]*\n\n<!-- figure: (\w+) -->\n.*?<!-- end -->\n", page, flags=re.DOTALL | re.MULTILINE)
    headings = dict(re.findall(r"^(## [^\n]*)\n\n<!-- figure: (\w+) -->", page, flags=re.MULTILINE))
    names = {name: heading for heading, name in headings.items()}
    parts = [f"{names[name]}\n\n<!-- figure: {name} -->\n\n<!-- end -->\n" for name in sections if name in tables]
    return "# Figures of this machine\n\n![Ratios](figures.svg)\n\n" + "\n".join(parts)


def check():
    """Fails if a generated file differs from the figures."""
    data, page = read_docs()
    stale = [name for name, text in rendered(data, page).items() if (ROOT / "docs" / name).read_text() != text]
    for name in stale:
        print(f"docs/{name} differs from docs/{DATA}: run scripts/figures.py render", file=sys.stderr)
    return 1 if stale else 0


def render():
    """Generates the page and the chart from the recorded figures."""
    data, page = read_docs()
    write(ROOT / "docs", data, rendered(data, page))
    return 0


def parse():
    """The command line."""
    parser = argparse.ArgumentParser(description="Measures and renders the figures of docs/performance.md")
    actions = parser.add_subparsers(dest="action", required=True)
    measuring = actions.add_parser("measure", help="run the commands of every figure")
    measuring.add_argument("esker", type=pathlib.Path)
    measuring.add_argument("libdaos", type=pathlib.Path)
    measuring.add_argument("--quick", action="store_true", help="take few measurements, to test that everything runs")
    measuring.add_argument("--only", type=lambda text: text.split(","), help=f"figures by name: {','.join(FIGURES)}")
    measuring.add_argument("--memory", default="/dev/shm", help="folder in memory (default /dev/shm)")
    measuring.add_argument("--disk", default=tempfile.gettempdir(), help="folder on a disk (default: that of temporary files)")
    measuring.add_argument("--python", help="a Python that has pyfdb and esker, to measure FDB beside the field store")
    measuring.add_argument("--ceph", help="pool on Ceph: rados:POOL?conf=FILE")
    measuring.add_argument("--keep", action="store_true", help="write to docs and replace the figures there")
    actions.add_parser("render", help="write the page and the chart from docs/figures.json")
    actions.add_parser("check", help="fail if the page or the chart is out of date")
    return parser.parse_args()


def main():
    options = parse()
    return {"measure": lambda: measure(options), "render": render, "check": check}[options.action]()


if __name__ == "__main__":
    sys.exit(main())
