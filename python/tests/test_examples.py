"""The examples do what they say."""

import pathlib
import subprocess
import sys

import made
import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "python"


def run(example, *arguments):
    """What an example prints."""
    command = [sys.executable, EXAMPLES / example, *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=120).stdout


def test_forecast(shared, tmp_path):
    pytest.importorskip("xarray")
    picture = tmp_path / "map.png"
    shown = run("forecast.py", shared.name, picture)
    assert "step: 0/6/12/18/24" in shown and "levelist: 500/850" in shown
    assert "step 24: " in shown and "isobaricInhPa" in shown
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
    # Members lie 0.5 K apart; the values of the first go from 850.5 to 889.5.
    assert "mean 870.50, spread 0.41 K" in shown
