"""The examples do what they claim."""

import pathlib
import re
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


def test_forecast(shared, tmp_path):
    pytest.importorskip("xarray")
    picture = tmp_path / "map.png"
    shown = run("forecast.py", shared.name, picture)
    assert "step: 0/6/12/18/24" in shown and "levelist: 250/500/850" in shown
    assert "param: 129/130/151/165/166/167" in shown and "number: 1/2" in shown
    assert "step 24: 20 fields" in shown and "(number, step, isobaricInhPa, latitude, longitude)" in shown
    assert picture.exists() == ("no map" not in shown)


def test_ensemble(shared, tmp_path):
    pytest.importorskip("xarray")
    picture = tmp_path / "ensemble.png"
    for member in ("1", "2"):
        assert run("ensemble.py", "archive", shared.name, member) == f"member {member}: 50 fields archived\n"
    shown = run("ensemble.py", "draw", shared.name, picture)
    assert "2 members read" in shown
    assert picture.exists() == ("no map" not in shown)


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


@pytest.mark.parametrize("page", sorted(EXAMPLES.glob("notebooks/*.py")), ids=lambda page: page.stem)
def test_notebooks(page):
    code = page.read_text()
    for needed in re.findall(r"^(?:import|from) (\w+)", code, re.M):
        pytest.importorskip(needed)
    shown = subprocess.run([sys.executable, page], capture_output=True, text=True, timeout=600)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.splitlines() == re.findall(r"# prints (.+)", code)


def test_readme(tmp_path, monkeypatch):
    page = EXAMPLES.parents[1] / "README.md"
    (block,) = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S)
    monkeypatch.setenv("ESKER_POOLS", str(tmp_path))
    esker.Pool.create("tank", 64 << 20, dir=tmp_path).create_container("run1")
    exec(block, {})
    with esker.Pool("tank").container("run1") as container:
        assert container.kv("index")["t2m"] == b"2.1"
        assert container.array("field-2").read(99, 1) == b"8 bytes."
