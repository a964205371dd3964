"""The charts: Esker beside what one would use instead, and beside the raw medium."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from page import Data
from spread import digits

FASTER, SLOWER, SECOND_FASTER, SECOND_SLOWER = "#2b6a99", "#c07a35", "#8fb8d4", "#e3bd94"
# Inches; narrow enough to be read on a telephone.
WIDTH = 5.6
TICKS = {0.01: "1/100", 0.1: "1/10", 0.25: "1/4", 0.5: "1/2", 1: "equal", 2: "2x", 4: "4x", 10: "10x", 100: "100x"}
# Labels that would touch others if the largest ratio shown is that many times the smallest.
CROWDED = [(30, (0.5, 2)), (300, (0.25, 4))]


class Bar(NamedTuple):
    """A row of a group: its label, and the names of its values."""

    label: str
    values: list[str]
    # The ratio of the raw medium to the same store.
    medium: str | None = None


class Group(NamedTuple):
    """Rows that compare with one store."""

    title: str
    table: str
    bars: list[Bar]
    # Meaning of the two bars of each row.
    note: str = ""


FILE_WORK = ["create", "stat", "remove", "8 KiB write", "8 KiB read", "1 MiB write", "1 MiB read"]
FILE_NOTE = "files: dark bar under `esker run`, light bar on the mount"


def file_bars(base: str) -> list[Bar]:
    """Each work, under `esker run` and on the mount."""
    return [Bar(what, [f"{base} run {what}", f"{base} mount {what}"]) for what in FILE_WORK]


STORES = [
    Group(
        "DAOS, one engine on the same cores",
        "daos",
        [
            Bar(f"{phase}, {what}", [f"{work} 1 {name}"])
            for work, what, phases in (
                ("Arrays of 1 MiB", "Arrays of 1 MiB", ("write", "read")),
                ("Key-Values of 64 bytes", "64 bytes", ("put", "get")),
            )
            for phase, name in zip(phases, ("write", "read"))
        ],
    ),
    Group(
        "GekkoFS, one daemon on the same cores",
        "gekkofs",
        [Bar(what, [f"{what} native 1", f"{what} engine 1"]) for what in FILE_WORK],
        "GekkoFS: dark bar a native pool, light bar through an engine",
    ),
    Group(
        "FDB (pyfdb), fields of 1 MiB",
        "fields",
        [
            Bar(what, [f"1 MiB {name} 1 python"], None if name == "list" else f"1 MiB {name} 1 medium")
            for what, name in (
                ("archive, flushed by step", "archive"),
                ("retrieve, field by field", "retrieve field by field"),
                ("retrieve, one request", "retrieve by one request"),
                ("the same, not copied", "the same as views"),
                ("list", "list"),
            )
        ],
    ),
    Group(
        "parallel HDF5, 2 processes, 16 MiB each",
        "tensors",
        [
            Bar("PUT", ["16 MiB for each 2 put hdf5-filled"], "16 MiB for each 2 put limit"),
            Bar("GET", ["16 MiB for each 2 get hdf5-filled"], "16 MiB for each 2 get limit"),
        ],
    ),
    Group(
        "zarr's LocalStore",
        "zarr",
        [Bar(f"{phase}, chunks of {size}", [f"{size} {phase}"]) for size in ("64 KiB", "1 MiB") for phase in ("write", "read")],
    ),
    Group(
        "{peer} (S3), objects of 8 MiB",
        "s3",
        [
            Bar("PUT, ETag by XXH3", ["put xxh3 1"], "put limit 1"),
            Bar("PUT, ETag by MD5", ["put md5 1"], "put limit 1"),
            Bar("GET", ["get xxh3 1"], "get limit 1"),
        ],
    ),
    Group(
        "Ceph, Arrays of 1 MiB",
        "ceph",
        [
            Bar("pool on Ceph / librados, write", ["16 operations in flight write"]),
            Bar("pool on Ceph / librados, read", ["16 operations in flight read"]),
            Bar("pool in memory / on Ceph, write", ["native write"]),
            Bar("pool in memory / on Ceph, read", ["native read"]),
        ],
    ),
]
PLAIN_FILES = [
    Group("files on tmpfs, 2 processes", "files", file_bars("tmpfs"), FILE_NOTE),
    Group("files on the disk ({disk}), 2 processes", "files_on_disk", file_bars("disk"), FILE_NOTE),
]


def title_of(group: Group, table: Data) -> str:
    """The title of a group, with the names of the other server and of the disk's file system."""
    rows, columns = table.get("rows", []), table.get("columns", [])
    peer = next((row[0].removesuffix(": PUT") for row in rows if row[0].endswith(": PUT")), "another server")
    return group.title.format(peer=peer, disk=columns[1] if len(columns) > 1 else "disk")


class Drawn(NamedTuple):
    """A row with numbers."""

    label: str
    values: list[float | None]
    medium: float | None


def median_of(data: Data, table: str, name: str | None) -> float | None:
    """A recorded median, or none."""
    found = data["tables"].get(table, {}).get("values", {}).get(name)
    return found[0] if found else None


def drawn_groups(data: Data, groups: list[Group]) -> Iterator[tuple[str, list[Drawn]]]:
    """The groups with their numbers; rows without a number and groups without rows are left out."""
    for group in groups:
        rows = [Drawn(bar.label, [median_of(data, group.table, name) for name in bar.values], median_of(data, group.table, bar.medium)) for bar in group.bars]
        rows = [row for row in rows if any(value is not None for value in row.values)]
        if rows:
            yield title_of(group, data["tables"][group.table]), rows


def notes_of(data: Data) -> list[str]:
    """Meanings of the bars of the groups that have numbers."""
    groups = [group for group in (*STORES, *PLAIN_FILES) if group.note and any(drawn_groups(data, [group]))]
    return list(dict.fromkeys(group.note for group in groups))


def pitch(row: Drawn) -> float:
    """The lines that a row takes: two bars need more than one."""
    return 1.0 if len(row.values) == 1 else 1.9


def height_of(groups: list[tuple[str, list[Drawn]]]) -> float:
    """The number of lines of a panel."""
    return sum(sum(map(pitch, rows)) + 1.5 for _, rows in groups)


def draw_panel(axes: Any, groups: list[tuple[str, list[Drawn]]], lines: float) -> None:
    """One column of bars from 1, on a logarithmic scale."""
    y, places, labels = 0.0, [], []
    numbers = [1.0]
    for title, rows in groups:
        axes.text(-0.02, y, title, va="center", ha="right", fontweight="bold", transform=axes.get_yaxis_transform())
        for row in rows:
            y += pitch(row)
            places.append(y)
            labels.append(row.label)
            draw_row(axes, y, row)
            numbers += [value for value in (*row.values, row.medium) if value]
        y += 1.5
    axes.set_xscale("log")
    margin = 1.2 * (max(numbers) / min(numbers)) ** 0.27
    axes.set_xlim(min(numbers) / margin, max(numbers) * margin)
    axes.set_ylim(lines - 0.3, -0.8)
    axes.set_yticks(places, labels)
    axes.axvline(1, color="black", linewidth=0.8)
    left, right = axes.get_xlim()
    crowded = {tick for limit, ticks in CROWDED for tick in ticks if right / left > limit}
    shown = [tick for tick in TICKS if left < tick < right and tick not in crowded]
    axes.set_xticks(shown, [TICKS[tick] for tick in shown])
    axes.minorticks_off()
    axes.tick_params(axis="y", length=0)
    axes.spines[["left", "right", "top"]].set_visible(False)


def draw_row(axes: Any, y: float, row: Drawn) -> None:
    """One bar, or two thin ones, and the mark of the raw medium."""
    colors = [(FASTER, SLOWER), (SECOND_FASTER, SECOND_SLOWER)]
    width = 0.7 * pitch(row) / len(row.values)
    for at, value in enumerate(row.values):
        if value is None:
            continue
        place = y + (at - (len(row.values) - 1) / 2) * width
        is_faster = value >= 1
        axes.barh(place, value - 1, left=1, height=width * 0.95, color=colors[at][0 if is_faster else 1])
        past = max(value, row.medium or 0) if is_faster and row.medium and value < row.medium < value * 1.6 else value
        axes.text(past * 1.06 if is_faster else value / 1.06, place, digits(value), va="center", ha="left" if is_faster else "right", fontsize=7.5)
    if row.medium:
        axes.plot([row.medium, row.medium], [y - 0.42, y + 0.42], color="black", linewidth=1.4)


def start_drawing() -> Any:
    """The library that draws, with settings that give the same text for the same numbers."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "esker", "font.family": "sans-serif", "font.size": 8.5})
    return pyplot


def text_of(pyplot: Any, figure: Any) -> str:
    """A drawing as the text of an SVG file."""
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    pyplot.close(figure)
    return re.sub(r"[ \t]+$", "", text.getvalue(), flags=re.MULTILINE)


def render_stores(data: Data) -> str:
    """Esker beside other stores and plain files, as the text of an SVG file."""
    pyplot = start_drawing()
    panels = [list(drawn_groups(data, groups)) for groups in (STORES, PLAIN_FILES)]
    panels = [panel for panel in panels if panel]
    lines = [height_of(panel) for panel in panels] or [2.0]
    figure, all_axes = pyplot.subplots(len(lines), figsize=(WIDTH, 0.19 * sum(lines) + 0.35 * len(lines) + 0.6), height_ratios=lines, squeeze=False)
    for axes, panel, height in zip(all_axes.flat, panels, lines):
        draw_panel(axes, panel, height)
    if not panels:
        all_axes[0][0].set_axis_off()
    notes = ["rate of Esker, as a multiple of the other's in the same run", "line: the raw medium (pwrite and pread; for S3 the HTTP library alone)"]
    notes += notes_of(data)
    figure.text(0.5, 0.004, "\n".join(notes), ha="center", va="bottom")
    figure.tight_layout(pad=0.3, rect=(0, 0.17 * len(notes) / figure.get_figheight(), 1, 1))
    return text_of(pyplot, figure)


# --- The raw medium

# Inches of each chart, with its title and numbers.
HEIGHTS = {"store": 3.6, "growth": 3.2, "latency": 2.2}

SHARES = [("1 MiB", "1 MiB Arrays, index"), ("8 KiB", "8 KiB Arrays"), ("8 KiB indexed", "8 KiB Arrays, index"), ("64 bytes", "64-byte values")]
TIMES = ["put of 64 bytes", "get of 64 bytes", "write of 8 KiB", "read of 8 KiB", "pwrite of 8 KiB"]


def draw_shares(axes: Any, values: Data) -> None:
    """Shares of the medium's rate, with ranges."""
    y, places, labels = 0.0, [], []
    for medium in ("tmpfs", "disk"):
        for name, label in SHARES:
            for phase, color in (("write", SLOWER), ("read", FASTER)):
                found = values.get(f"{medium} {name} {phase} 1")
                if not found:
                    continue
                median, low, high = found
                axes.barh(y, median, height=0.8, color=color, label=phase if phase not in axes.get_legend_handles_labels()[1] else None)
                axes.plot([low, high], [y, y], color="black", linewidth=0.8)
                if phase == "write":
                    places.append(y + 0.5)
                    labels.append(f"{medium}, {label}")
                y += 1
            y += 0.5
    axes.set_yticks(places, labels)
    axes.invert_yaxis()
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_title("rate, as a multiple of pwrite's and pread's (1 process)", fontsize=9)
    axes.legend(loc="lower right", frameon=False)


def draw_growth(axes: Any, values: Data) -> None:
    """Rates against the number of entries."""
    for kind, kind_name in (("kv", "Key-Value"), ("array", "objects")):
        for phase, color in (("put", SLOWER), ("get", FASTER)):
            points = sorted((int(name.split()[2]), found[0]) for name, found in values.items() if re.fullmatch(rf"{kind} {phase} \d+", name))
            if points:
                x, y = zip(*points)
                axes.plot(x, [rate / 1000 for rate in y], "o-" if kind == "kv" else "s--", color=color, label=f"{kind_name}: {phase}", markersize=4)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(lambda rate, _: f"{rate:g}" if f"{rate:g}"[0] in "235" else "")
    axes.set_title("thousand operations/s, by number of entries", fontsize=9)
    axes.legend(frameon=False, fontsize=7.5)


def draw_latency(axes: Any, values: Data) -> None:
    """Median, 99th and 99.9th percentile of each operation."""
    shown = [what for what in TIMES if f"{what} 1 p50" in values]
    for y, what in enumerate(shown):
        times = [values[f"{what} 1 {part}"][0] for part in ("p50", "p99", "p99_9")]
        axes.plot(times, [y] * 3, "-", color="#999999", linewidth=1)
        for time, marker in zip(times, "o|x"):
            axes.plot(time, y, marker, color=FASTER, markersize=6)
    axes.set_yticks(range(len(shown)), shown)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_title("microseconds: median (o), 99 % (|), 99.9 % (x)", fontsize=9)


def render_medium(data: Data) -> str:
    """Esker beside the raw medium, as it grows, and its latencies, as the text of an SVG file."""
    pyplot = start_drawing()
    panels = [("store", draw_shares), ("growth", draw_growth), ("latency", draw_latency)]
    panels = [(name, draw) for name, draw in panels if data["tables"].get(name, {}).get("values")]
    heights = [HEIGHTS[name] for name, _ in panels] or [2.0]
    figure, all_axes = pyplot.subplots(len(heights), figsize=(WIDTH, sum(heights)), height_ratios=heights, squeeze=False)
    for axes, (name, draw) in zip(all_axes.flat, panels):
        draw(axes, data["tables"][name]["values"])
        axes.spines[["right", "top"]].set_visible(False)
    if not panels:
        all_axes[0][0].set_axis_off()
    figure.tight_layout(pad=0.6, h_pad=1.4)
    return text_of(pyplot, figure)
