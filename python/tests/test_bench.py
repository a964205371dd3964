"""Benchmarks of the command whose processes are Python: this one, with the packages of the tests."""

import json
import subprocess
import sys

import pytest


def report(*arguments):
    """The runs of a small benchmark in a temporary pool."""
    command = [sys.executable, "-m", "esker", "bench", *arguments, "--python", sys.executable, "--json", "-"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)["runs"]


def test_zarr_beside_a_local_store():
    pytest.importorskip("zarr", minversion="3.1")
    runs = report("zarr", "--procs", "2", "--size", "4KiB", "--total", "128KiB", "-i", "2", "--targets", "2")
    phases = ["write", "read", "list", "commit"]
    assert [(run["store"], run["phase"]) for run in runs] == [
        (store, phase) for phase in phases for store in ("esker", "local")
    ]
    # Two processes in two iterations: 32 chunks, five lists of them and the metadata, two commits.
    assert [run["ops"] for run in runs[::2]] == [128, 128, 660, 8]
    assert all(run["ratio_to"].keys() == {"local"} and run["ratio_to"]["local"] >= 0 for run in runs[::2])
    assert all(run["latency_us"]["max"] > 0 and len(run["repeats"]) == 2 for run in runs)


def test_fields_beside_a_real_fdb():
    pytest.importorskip("pyfdb")
    small = ["--size", "4KiB", "--steps", "2", "--levels", "2", "--params", "2", "-i", "1", "--no-watch"]
    runs = report("fields", "--peer", "pyfdb", *small, "--targets", "2")
    of_peer = {run["phase"]: run["ops"] for run in runs if run["store"] == "pyfdb"}
    assert of_peer.items() >= {"archive": 8, "retrieve": 8, "retrieve-request": 8, "list": 8}.items()
    compared = [run for run in runs if "pyfdb" in (run.get("ratio_to") or {})]
    assert {"archive", "retrieve", "python-retrieve", "python-view-request"} <= {
        run["phase"] for run in compared
    }
