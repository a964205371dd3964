"""The examples do what they claim."""

import importlib
import os
import pathlib
import re
import struct
import subprocess
import sys

import made
import pytest

import esker

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "python"


def run(example, *arguments):
    """The output of an example."""
    command = [sys.executable, EXAMPLES / example, *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=600).stdout


def weather():
    """The folder of the weather that scripts/weather.sh has fetched."""
    folder = EXAMPLES.parents[1] / "build" / "weather"
    if not (folder / "requirements.txt").exists():
        pytest.skip("no weather: scripts/weather.sh fetches it")
    return folder


def test_forecast(shared, tmp_path):
    pytest.importorskip("xarray")
    picture = tmp_path / "map.png"
    shown = run("forecast.py", shared.name, picture)
    assert "step: 0/6/12/18/24" in shown and "levelist: 250/500/850" in shown
    assert "param: 129/130/151/165/166/167" in shown and "number: 1/2" in shown
    assert "step 24: 20 fields" in shown and "(number, step, isobaricInhPa, latitude, longitude)" in shown
    assert picture.exists() == ("no map" not in shown)


def test_weather_and_its_ensemble(shared, native, tmp_path):
    pytest.importorskip("xarray")
    picture = tmp_path / "weather.png"
    shown = run("weather.py", shared.name, weather(), picture)
    assert "era5-members.grib: 160 fields" in shown and "era5-europe.grib: 1 fields" in shown
    assert "param: 129/130/167" in shown and "number: 0/1/2/3/4/5/6/7/8/9" in shown
    assert "t of member 9: 14752 bytes, down to -34.5 degrees" in shown
    assert picture.exists() == ("no map" not in shown)

    picture, name = tmp_path / "ensemble.png", f"{native.pool.name}/{native.label}-ensemble"
    for members in ("0/to/4", "5/to/9"):
        assert (
            run("ensemble.py", "archive", name, shared.name, members)
            == f"members {members}: 40 fields archived\n"
        )
    shown = run("ensemble.py", "draw", name, picture)
    assert "10 members read, 0.30 K apart" in shown
    assert picture.exists() == ("no map" not in shown)
    native.pool.destroy_container(f"{native.label}-ensemble", force=True)


def test_ensemble_of_a_computed_forecast(shared, native, tmp_path):
    pytest.importorskip("xarray")
    name = f"{native.pool.name}/{native.label}-ensemble"
    run("forecast.py", shared.name, tmp_path / "forecast.png")
    for member in ("1", "2"):
        run("ensemble.py", "archive", name, shared.name, member)
    assert "2 members read" in run("ensemble.py", "draw", name, tmp_path / "ensemble.png")
    native.pool.destroy_container(f"{native.label}-ensemble", force=True)


def test_maps_leave_out_fields_with_one_value_everywhere(shared, tmp_path):
    pytest.importorskip("xarray")
    path = tmp_path / "constant.grib"
    keys = {"paramId": 130, "date": 20240610, **made.GRID}
    path.write_bytes(esker.make_grib("regular_ll_pl_grib2", keys, made.numpy.full(40, 280.0)))
    shown = run("maps.py", shared.name, tmp_path / "maps.png", path)
    assert "no map: no field has values that differ" in shown


def test_coastlines_are_the_edges_that_no_other_polygon_shares(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    import maps

    def record(ring):
        """A record of a shapefile: a polygon of one ring. Its bounds are not used."""
        points = made.numpy.array(ring, "<f8")
        content = struct.pack("<i4d2ii", 5, 0, 0, 1, 1, 1, len(ring), 0) + points.tobytes()
        return struct.pack(">2i", 1, len(content) // 2) + content

    west = [(0, 0), (0, 1), (1, 1), (1, 0), (0, 0)]
    east = [(1, 0), (1, 1), (180, 1), (180, 0), (1, 0)]
    path = tmp_path / "two.shp"
    path.write_bytes(bytes(100) + record(west) + record(east))
    monkeypatch.setenv("COASTLINES", str(path))
    edges = {tuple(map(tuple, edge)) for edge in maps.coastlines().tolist()}
    border, date_line = ((1, 0), (1, 1)), ((180, 0), (180, 1))
    assert ((0, 0), (0, 1)) in edges and border not in edges and date_line not in edges and len(edges) == 5
    monkeypatch.setenv("COASTLINES", str(tmp_path / "none.shp"))
    assert len(maps.coastlines()) == 0


def test_titles_of_maps_differ(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    xarray = pytest.importorskip("xarray")
    import maps

    coords = {"time": made.numpy.datetime64("2017-01-01T12:00", "ns"), "step": made.numpy.timedelta64(6, "h")}
    field = xarray.DataArray(
        0, {**coords, "isobaricInhPa": 850.0, "number": 3}, attrs={"long_name": "Temperature"}
    )
    assert maps.title(field) == "Temperature at 850 hPa, 2017-01-01 12:00, step 6 h, member 3"
    assert maps.unit(field.assign_attrs(units="m**2 s**-2")) == "m$^{2}$ s$^{-2}$"


def test_maps_of_files_with_several_products(shared, tmp_path):
    pytest.importorskip("xarray")
    path, picture = tmp_path / "several.grib", tmp_path / "maps.png"
    reduced = esker.make_grib("reduced_gg_pl_32_grib2", {"paramId": 130, "date": 20240610})
    path.write_bytes(b"".join(made.level(step, 850)[0] for step in (0, 6)) + reduced)
    shown = run("maps.py", shared.name, picture, path)
    assert "several.grib: 3 fields" in shown and "levtype: pl" in shown
    assert "t: {'step': 2, 'latitude': 5, 'longitude': 8}" in shown and "t: {'values': " in shown
    assert picture.exists() == ("no map" not in shown)


def test_live(shared, tmp_path):
    pytest.importorskip("xarray")
    lines = run("live.py", shared.name, tmp_path / "live.png").splitlines()
    assert [line.split(":")[0] for line in lines] == [f"step {step}" for step in range(0, 49, 6)]
    assert len({line.split(":")[1] for line in lines}) > 3  # not a plot of a constant


def test_ensemble_mean(shared, tmp_path):
    pytest.importorskip("xarray")
    path, messages = tmp_path / "members.grib", [made.level(0, 850, member)[0] for member in (1, 2, 3)]
    path.write_bytes(b"".join(messages))
    shown = run("ensemble_mean.py", shared.name, "param=130", path, tmp_path / "map.png")
    assert "members.grib: 3 fields" in shown
    # Members differ by 0.5 K; the values of the first range from 850.5 to 889.5.
    assert "mean 870.50, spread 0.41 K" in shown


def test_from_pyfdb(shared):
    shown = run("from_pyfdb.py", shared.name)
    assert "field 12 15 bytes" in shown and "steps 0 6 12 18 24" in shown
    assert "29 bytes: ['t2m at step 24', 't2m at step 0']" in shown
    assert "masked and not: [23, 14]" in shown and "control_identifiers=[WIPE]" in shown
    assert "refused: wiping is disabled" in shown and "wiped STORE 5" in shown
    assert len(shared.list()) == 0


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.py")), ids=lambda example: example.stem)
def test_examples_explain_themselves(example):
    for needed in set(re.findall(r"^(?:import|from) (numpy|xarray|torch)", example.read_text(), re.M)):
        pytest.importorskip(needed)
    asked = subprocess.run([sys.executable, example, "--help"], capture_output=True, text=True, timeout=60)
    assert f"    python {example.name} " in asked.stderr and "Traceback" not in asked.stderr


NOTEBOOKS = sorted(EXAMPLES.glob("notebooks/*.py"))


def expected_of(page):
    """Lines that a notebook prints by its own comments; skips the test if something it needs is missing."""
    code = page.read_text()
    for needed in re.findall(r"^(?:import|from) (\w+)", code, re.M):
        if not (EXAMPLES / f"{needed}.py").exists():
            pytest.importorskip(needed)
    if "build/weather" in code:
        weather()
    return re.findall(r"# prints (.+)", code)


@pytest.mark.parametrize("page", NOTEBOOKS, ids=lambda page: page.stem)
def test_notebooks(page):
    expected = expected_of(page)
    command, environment = [sys.executable, page], {**os.environ, "MPLBACKEND": "agg"}
    root = EXAMPLES.parents[1]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=root, env=environment)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.splitlines() == expected


@pytest.fixture
def notebooks(monkeypatch):
    """The script that makes notebooks, as a module."""
    for needed in ("nbclient", "nbformat", "ipykernel"):
        pytest.importorskip(needed)
    monkeypatch.syspath_prepend(EXAMPLES.parents[1] / "scripts")
    return importlib.import_module("notebooks")


@pytest.mark.parametrize("page", NOTEBOOKS, ids=lambda page: page.stem)
def test_notebooks_run_as_notebooks(page, notebooks, tmp_path):
    expected = expected_of(page)
    notebooks.main(tmp_path, [page])
    made = notebooks.nbformat.read(tmp_path / f"{page.stem}.ipynb", as_version=4)
    assert notebooks.printed(made).splitlines() == expected
    text = (tmp_path / f"{page.stem}.md").read_text()
    assert "# prints" not in text and f"]({page.stem}.ipynb)" in text
    assert all(line in text for line in expected)
    pictures = re.findall(r"!\[\]\((.+)\)", text)
    assert all((tmp_path / name).stat().st_size > 10_000 for name in pictures)
    if page.stem == "weather":
        assert pictures == ["weather-1.png", "weather-2.png"] and "<strong>esker.Fields</strong>" in text


def test_a_notebook_whose_packages_are_missing_is_named(notebooks, tmp_path, capsys):
    page = tmp_path / "page.py"
    page.write_text("# %%\nimport no_such_package\n")
    notebooks.main(tmp_path, [page])
    assert "left out: page needs no_such_package" in capsys.readouterr().out


def test_notebooks_find_the_modules_of_examples(notebooks, monkeypatch):
    monkeypatch.delitem(sys.modules, "maps", raising=False)
    assert notebooks.is_there("maps") and not notebooks.is_there("no_such_package")


def test_a_notebook_that_fails_is_not_written(notebooks, tmp_path):
    page = tmp_path / "page.py"
    page.write_text("# %%\nraise ValueError(7)\n")
    with pytest.raises(Exception, match="ValueError"):
        notebooks.main(tmp_path, [page])
    assert not list(tmp_path.glob("*.ipynb"))


def test_readme(tmp_path, monkeypatch):
    page = EXAMPLES.parents[1] / "README.md"
    (block,) = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S)
    monkeypatch.setenv("ESKER_POOLS", str(tmp_path))
    esker.Pool.create("tank", 64 << 20, dir=tmp_path).create_container("run1")
    exec(block, {})
    with esker.Pool("tank").container("run1") as container:
        assert container.kv("index")["t2m"] == b"2.1"
        assert container.array("field-2").read(99, 1) == b"8 bytes."
