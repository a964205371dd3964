"""The examples do what they say."""

import pathlib
import runpy

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "python"


def test_forecast(shared, tmp_path, capsys):
    pytest.importorskip("made")
    pytest.importorskip("xarray")
    example = runpy.run_path(str(EXAMPLES / "forecast.py"))
    example["main"](shared.name, str(tmp_path / "map.png"))
    shown = capsys.readouterr().out
    assert "step: 0/6/12/18/24" in shown and "levelist: 500/850" in shown
    assert "step 24: " in shown and "isobaricInhPa" in shown
    assert (tmp_path / "map.png").exists() == ("no map" not in shown)
