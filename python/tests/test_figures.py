"""scripts/figures makes the tables and charts of docs/performance.md from reports of benchmarks."""

import argparse
import collections
import contextlib
import importlib.util
import itertools
import os
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "scripts" / "figures"
NAMES = sorted(path.stem for path in FOLDER.glob("[a-z]*.py"))


@contextlib.contextmanager
def importable():
    """Let the modules of scripts/figures be imported; then restore others with the same names."""
    before = {name: sys.modules.pop(name) for name in NAMES if name in sys.modules}
    sys.path.insert(0, str(FOLDER))
    try:
        yield
    finally:
        sys.path.remove(str(FOLDER))
        for name in NAMES:
            sys.modules.pop(name, None)
        sys.modules.update(before)


with importable():
    chart, files, gekkofs, objects, page, peers, spread, figure, machine = map(
        importlib.import_module,
        ["chart", "files", "gekkofs", "objects", "page", "peers", "spread", "figure", "machine"],
    )
    command = importlib.util.spec_from_file_location("figures_command", FOLDER / "__main__.py")
    figures = importlib.util.module_from_spec(command)
    command.loader.exec_module(figures)


class Sample:
    """A machine whose benchmarks return prepared runs: from one call to the next, rates are 1 to 5."""

    def __init__(self, runs, packages=("pyfdb", "zarr", "esker"), **options):
        defaults = {"memory": "/m", "disk": "/d", "python": "python", "ceph": "", "daos": "", "peer": None}
        defaults["gekkofs"] = None
        self.options = argparse.Namespace(**(defaults | options))
        self.quick, self.commands, self.absent = False, [], []
        self._runs, self._packages, self._calls = runs, packages, itertools.count()

    def repeats(self, count):
        return count

    def short(self, *_):
        return []

    def bench(self, *arguments, **_):
        number = 1 + next(self._calls) % 5
        report = {"settings": {}, "runs": [with_rates(run, number) for run in self._runs]}
        if arguments[0] == "compare":
            report["absent"] = {}
            report["compared"] = [
                {"phase": phase, "first_store_over": {"native": 1, "rados:esker": 8, "daos": 9}}
                for phase in ("write", "read")
            ]
        return report

    def need_disk(self):
        return self.options.disk

    def version(self, package):
        return "1.0" if package in self._packages else None

    def need_package(self, *packages):
        if set(packages) - set(self._packages):
            raise machine.Skipped("a Python")
        return ["1.0"] * len(packages)


def with_rates(run, number):
    """A run with latencies, repeats, and rates that grow with a number, unless the run has its own."""
    latency = {"p50": 1.0, "p99": 2.0, "p99_9": 3.0}
    repeats = [{"repeat": one, "rate": run.get("rate", 10) * one} for one in (1, 2, 3)]
    rates = {"ratio": number / 10, "ops_per_s": 1000.0 * number, "bandwidth_mib_s": 100.0 * number}
    return {"latency_us": latency, "repeats": repeats} | rates | run


def runs(stores, phases, **members):
    """Runs of each store in each phase, with lists of members multiplied out."""
    lists = {name: value if isinstance(value, (list, tuple)) else [value] for name, value in members.items()}
    found = []
    for store, phase, *values in itertools.product(stores, phases, *lists.values()):
        found.append({"store": store, "phase": phase} | dict(zip(lists, values)))
    return found


# --- Rows


def test_medians_are_shown_with_their_ranges():
    assert spread.ratio(spread.spread_of([0.5, 0.9, 0.7])) == "0.7 (0.5-0.9)"
    assert spread.ratio(spread.spread_of([2.0])) == "2"
    assert spread.ratio(spread.spread_of([None])) == "-"
    assert spread.ratio(spread.spread_of([120.4, 110, 130])) == "120 (110-130)"


def test_rows_of_a_store_have_medians_of_all_reports():
    sample = Sample(runs(["esker"], ["write", "read"], procs=[1, 2]))
    table, reports = figure.Table(), [sample.bench("array") for _ in range(5)]
    cells = objects.store_cells(table, "tmpfs 1 MiB", reports, 2)
    assert cells == ["3 k/s", "0.3 (0.1-0.5)", "3 k/s", "0.3 (0.1-0.5)"]
    assert table.values["tmpfs 1 MiB write 2"] == [0.3, 0.1, 0.5]


def test_missing_runs_are_dashes():
    cells = objects.store_cells(figure.Table(), "tmpfs", [{"runs": []}], 1)
    assert cells == ["-"] * 4


def test_ratios_are_those_of_the_same_iteration():
    table = files.file_table({"runs": posix_runs()}, "tmpfs", ["ext4"], "tmpfs", latencies=True)
    create = next(row for row in table.rows if row[0] == "create")
    assert create == ["create", "20 /s", "0.5", "0.25", "2", "1"]
    # The second run of the same kind is that of a shared file.
    assert table.values["tmpfs run 8 KiB write"] != table.values["tmpfs run 8 KiB write, shared file"]


def posix_runs():
    """Runs of mdtest and IOR on each file system, at a rate of its own."""
    rates = {"tmpfs": 10, "DFS": 5, "run": 2.5, "mount": 20, "ext4": 10, "GekkoFS": 0.5}
    found = []
    for store, rate in rates.items():
        for procs in (2, 1):
            found += runs(
                [store],
                ["file-creation", "file-stat", "file-removal"],
                workload="mdtest",
                procs=procs,
                rate=rate,
            )
            found[-3:] = [run | {"size_bytes": 0} for run in found[-3:]]
            for size, factor in ((8 << 10, 1), (8 << 10, 3), (1 << 20, 1)):
                one = rate if store == "tmpfs" else rate * factor
                found += runs(
                    [store], ["write", "read"], workload="ior", procs=procs, rate=one, size_bytes=size
                )
    return [with_rates(run, 1) for run in found]


def field_runs(stores):
    phases = ["archive", "retrieve", "retrieve-request", "list", "pwrite", "pread"]
    python = ["python-retrieve", "python-retrieve-request", "python-view-request"]
    return runs(stores, phases, procs=[1, 2]) + runs(["esker"], python, procs=[1, 2])


def test_fields_without_a_peer_are_beside_files_only():
    sample = Sample(field_runs(["esker", "files", "medium"]), packages=())
    table = peers.measure_fields(sample)
    assert any("pyfdb" in reason for reason in sample.absent) or sample.absent == ["FDB needs a Python"]
    archive = table.rows[0]
    assert archive[3] == "1" and archive[4:] == ["-", "-"]


def test_ratios_to_another_s3_server_are_of_the_same_run():
    table = peers.measure_s3(Sample(s3_runs(), peer=("other 1.0", "http://localhost:1")))
    assert table.values["put xxh3 1"] == [1, 1, 1]
    assert [row[0] for row in table.rows][-2:] == ["other 1.0: GET", "other 1.0: PUT"]
    alone = peers.measure_s3(Sample([run for run in s3_runs() if run["store"] != "peer"]))
    assert not alone.values and len(alone.rows) == 5


def s3_runs():
    phases = ["get", "put", "put trailer", "put signed"]
    own = runs(["esker"], phases, workload=["xxh3", "md5"], procs=[1, 2])
    return own + runs(["peer"], phases, workload="peer", procs=[1, 2])


def tensor_runs():
    stores = ["esker", "hdf5-filled", "hdf5-unfilled", "hdf5-contiguous", "file", "medium"]
    sizes = [("tensors-weak", 1 << 20), ("tensors-weak", 16 << 20), ("tensors-strong", 64 << 20)]
    phases = ["put", "get", "pwrite", "pread"]
    pairs = [runs(stores, phases, workload=name, size_bytes=size, procs=[1, 2, 4]) for name, size in sizes]
    return list(itertools.chain(*pairs))


def rados_runs():
    return runs(["librados", "esker", "esker x8", "esker x16"], ["write", "read"], procs=1)


def zarr_runs():
    return runs(["esker", "local"], ["write", "read", "list", "commit"], size_bytes=[64 << 10, 1 << 20])


def gekkofs_table():
    table, report = figure.Table(), {"runs": posix_runs()}
    gekkofs.add_work(table, {1: report, 2: report}, report)
    table.columns = gekkofs.columns("1.0")
    return table


MEASURED = {
    "fields": lambda: peers.measure_fields(Sample(field_runs(["esker", "files", "medium", "pyfdb"]))),
    "tensors": lambda: peers.measure_tensors(Sample(tensor_runs())),
    "zarr": lambda: peers.measure_zarr(Sample(zarr_runs())),
    "s3": lambda: peers.measure_s3(Sample(s3_runs(), peer=("other", "http://localhost:1"))),
    "ceph": lambda: peers.measure_ceph(Sample(rados_runs(), ceph="rados:esker")),
    "daos": lambda: peers.measure_daos(Sample([], daos="daos:esker")),
    "gekkofs": gekkofs_table,
    "files": lambda: files.measure_files(Sample(posix_runs())),
    "files_on_disk": lambda: files.measure_files_on_disk(Sample(posix_runs())),
}


@pytest.mark.parametrize("group", chart.STORES + chart.PLAIN_FILES, ids=lambda group: group.table)
def test_every_bar_of_the_chart_is_measured(group):
    table = MEASURED[group.table]()
    names = [name for bar in group.bars for name in (*bar.values, bar.medium) if name]
    assert not set(names) - set(table.values)
    assert all(len(row) == len(table.rows[0]) for row in table.rows)
    columns = table.columns or figures.FIGURES[group.table].columns
    assert len(columns) == len(table.rows[0])


# --- GekkoFS

# It writes the number of its process to a file, and is ready as soon as it has started.
DAEMON = """#!/bin/sh
[ "$1" = --version ] && echo 1.2.3 && exit
while [ $# -gt 0 ]; do
    [ "$1" = --hosts-file ] && hosts=$2
    shift
done
echo $$ >"$0.process"
echo "node ofi+tcp://127.0.0.1:1" >"$hosts"
exec sleep 1000
"""


def installed_gekkofs(folder, daemon):
    """A machine with a GekkoFS whose daemon is a script."""
    for name in ("bin", "lib"):
        (folder / name).mkdir()
    program = folder / "bin" / "gkfs_daemon"
    program.write_text(daemon)
    program.chmod(0o755)
    (folder / "lib" / "libgkfs_intercept.so").touch()
    return Sample([], gekkofs=folder, memory=folder)


def test_programs_find_a_daemon_that_ends_afterwards(tmp_path):
    sample = installed_gekkofs(tmp_path, DAEMON)
    with gekkofs.running(sample) as client:
        assert client.folder.is_dir()
        hosts = pathlib.Path(client.variables["LIBGKFS_HOSTS_FILE"])
        assert hosts.read_text() == "node ofi+tcp://127.0.0.1:1\n"
        assert pathlib.Path(client.variables["LD_PRELOAD"]).is_file()
        shown = gekkofs.shown_names(client)
        assert f"LIBGKFS_HOSTS_FILE={hosts}" in shown and "GekkoFS=DIR" in shown.values()
        process = int((tmp_path / "bin" / "gkfs_daemon.process").read_text())
        assert pathlib.Path(f"/proc/{process}").exists()
    assert not pathlib.Path(f"/proc/{process}").exists() and not hosts.parent.exists()
    assert gekkofs.version_of(tmp_path / "bin" / "gkfs_daemon") == "1.2.3"


def test_a_daemon_that_ignores_the_request_to_end_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(gekkofs, "END_TIMEOUT_S", 0.1)
    deaf = DAEMON.replace("exec sleep 1000", "read line <$0.pipe").replace("echo $$", "trap '' TERM; echo $$")
    sample = installed_gekkofs(tmp_path, deaf)
    os.mkfifo(tmp_path / "bin" / "gkfs_daemon.pipe")
    with gekkofs.running(sample):
        process = int((tmp_path / "bin" / "gkfs_daemon.process").read_text())
    assert not pathlib.Path(f"/proc/{process}").exists()


def test_a_daemon_that_ends_at_once_is_reported(tmp_path):
    sample = installed_gekkofs(tmp_path, "#!/bin/sh\necho no interface lo\nexit 1\n")
    with pytest.raises(machine.Failed, match="no interface lo"), gekkofs.running(sample):
        pass


def test_gekkofs_is_left_out_where_it_is_not_installed(tmp_path):
    for folder in (None, tmp_path):
        with pytest.raises(machine.Skipped, match="--gekkofs FOLDER"):
            gekkofs.measure_gekkofs(Sample([], gekkofs=folder))


def test_ratios_to_gekkofs_are_of_the_same_run():
    table = gekkofs_table()
    assert table.rows[0] == ["create", "20 /s", "1 /s", "5 /s", "5", "5", "5"]
    assert table.values["create engine 2"] == [5, 5, 5]


def test_a_program_that_fails_has_no_time():
    assert files.started_us(["/bin/true"], {}) > 0
    with pytest.raises(machine.Failed, match="status 1"):
        files.started_us(["/bin/false"], {})


# --- The page


def recorded(commit, **members):
    """A table as docs/figures.json has it, measured at a commit."""
    table = {
        "shows": "Rates.",
        "commands": ["esker bench kv"],
        "machine": "2 x CPU",
        "file_systems": ["tmpfs"],
        "measured": "1 May 2026",
        "commit": commit,
        "absent": [],
        "columns": ["what", "rate"],
        "rows": [["put", "1"]],
        "values": {},
    }
    return table | members


PAGE = "".join(
    f"<!-- {name} -->\n\n<!-- end -->\n\n"
    for name in ("origin", "figure: one", "figure: two", "figure: three")
)


def test_the_page_names_one_commit_and_marks_tables_of_others():
    tables = {
        "one": recorded("abc"),
        "two": recorded("abc"),
        "three": recorded("old", measured="1 April 2026"),
    }
    text = page.render_page(PAGE, {"tables": tables})
    assert "Measured at commit `abc` on 1 May 2026: 2 x CPU; tmpfs." in text
    assert text.count("at another commit") == 1
    assert "Measured at another commit, `old`, on 1 April 2026: 2 x CPU." in text


def test_a_table_without_a_commit_says_so():
    text = page.render_page(PAGE, {"tables": {"one": recorded("abc"), "two": recorded(None)}})
    assert text.count("Measured at a commit that was not recorded, on 1 May 2026") == 1
    text = page.render_page(PAGE, {"tables": {"one": recorded(None)}})
    assert "The commit at which these tables were measured was not recorded." in text


def test_a_table_that_was_not_measured_says_what_it_needs():
    data = {
        "tables": {"one": recorded("abc", absent=["FDB needs pyfdb"])},
        "reasons": {"two": "this needs a pool on Ceph"},
    }
    text = page.render_page(PAGE, data)
    assert "Left out: FDB needs pyfdb." in text
    assert "Not measured here: this needs a pool on Ceph." in text
    assert page.render_page(text, data) == text


def test_the_page_has_each_figure_once():
    found = page.SECTION.finditer((ROOT / "docs" / "performance.md").read_text())
    names = [match[2] for match in found]
    assert collections.Counter(names) == collections.Counter(list(figures.FIGURES))


def test_headings_without_tables_are_left_out_of_the_page_of_a_machine():
    mark = "<!-- figure: {} -->\n\n<!-- end -->\n\n"
    text = "# Page\n\n## One\n\nText.\n\n### Part\n\n" + mark.format("one")
    text += "More.\n\n## Two\n\n## Three\n\n" + mark.format("three")
    found = page.headings_and_marks(text, ["one", "three"])
    headings = [line for line in found.splitlines() if line.startswith("##")]
    assert headings == ["## One", "### Part", "## Three"]
    assert "Text." not in found


# --- The charts


def test_charts_leave_out_missing_figures():
    pytest.importorskip("matplotlib")
    assert "</svg>" in chart.render_stores({"tables": {}})
    assert "</svg>" in chart.render_medium({"tables": {}})
    values = {"64 KiB write": [2.0, 1.0, 3.0]}
    text = chart.render_stores({"tables": {"zarr": recorded("abc", values=values)}})
    other = recorded("abc", values={"put xxh3 1": [2.0] * 3}, rows=[["other 1.0: PUT", "1"]])
    assert "other 1.0 (S3)" in chart.render_stores({"tables": {"s3": other}})
    assert "write, chunks of 64 KiB" in text and "chunks of 1 MiB" not in text and "FDB" not in text


def test_charts_name_the_bars_of_the_groups_that_they_show():
    values = {"create native 1": [9.0] * 3, "create engine 1": [3.0] * 3}
    data = {"tables": {"gekkofs": recorded("abc", values=values)}}
    assert chart.notes_of(data) == ["GekkoFS: dark bar a native pool, light bar through an engine"]
    assert chart.notes_of({"tables": {}}) == []


def test_charts_are_the_same_each_time():
    pytest.importorskip("matplotlib")
    data, _ = figures.read_docs()
    assert chart.render_stores(data) == chart.render_stores(data)
    assert chart.render_medium(data) == chart.render_medium(data)


# --- The command


def failing(error):
    """A figure whose measurement raises an error."""

    def measure(_):
        raise error

    return figure.Figure([], "", measure)


@pytest.mark.parametrize(
    "error", [machine.Skipped("a pool on Ceph"), KeyError("ratio"), machine.Failed("`esker`")]
)
def test_a_figure_that_cannot_be_measured_is_left_out_with_a_reason(error, monkeypatch):
    monkeypatch.setitem(figures.FIGURES, "store", failing(error))
    sample = argparse.Namespace(begin=lambda: None)
    reason = figures.measure_figure(sample, "store")
    assert isinstance(reason, (machine.Skipped, machine.Failed)) and str(error) in str(reason)


def test_figures_on_memory_are_measured_without_a_disk(tmp_path, monkeypatch):
    def bench(_, *arguments):
        if arguments[-1] == "/missing":
            raise machine.Failed("`esker bench limit` ended with status 1")

    monkeypatch.setattr(machine.Machine, "bench", bench)
    measuring = machine.Machine(argparse.Namespace(disk="/missing", memory="/m"), tmp_path / "reports")
    measuring.look_around()
    with pytest.raises(machine.Skipped, match="/missing is not"):
        measuring.need_disk()


def test_rows_without_numbers_are_reported():
    assert figures.rows_without_numbers([["put", "tmpfs", "-", "-"], ["get", "tmpfs", "1", "-"]]) == ["put"]


def test_recorded_figures_are_the_same_when_they_are_read_again():
    data, _ = figures.read_docs()
    text = figures.json_text(data)
    assert figures.json.loads(text) == data
    assert (ROOT / "docs" / "figures.json").read_text() == text


def test_unknown_figures_and_servers_are_refused():
    with pytest.raises(argparse.ArgumentTypeError, match="no such figure: nothing"):
        figures.parse_names("store,nothing")
    with pytest.raises(argparse.ArgumentTypeError, match="NAME=http"):
        figures.parse_peer("http://localhost:1")
    assert figures.parse_peer("a 1=http://h:1") == ("a 1", "http://h:1")
