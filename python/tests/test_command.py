"""The command `esker` that comes with the package."""

import importlib.metadata
import os
import pathlib
import subprocess
import sys
import sysconfig
import tempfile

import pytest

import esker
from esker import __main__ as main

MODULE = (sys.executable, "-m", "esker")
SCRIPT = (os.path.join(sysconfig.get_path("scripts"), "esker"),)
BOTH = pytest.mark.parametrize("command", [MODULE, SCRIPT], ids=["module", "script"])


def run(command, *arguments):
    """The output of a successful command, run without the test's environment."""
    outside = {name: value for name, value in os.environ.items() if name != "ESKER_PRELOAD"}
    return subprocess.run(
        [*command, *arguments], stdout=subprocess.PIPE, text=True, check=True, timeout=600, env=outside
    ).stdout


@BOTH
def test_the_command_has_the_version_of_the_package(command):
    assert run(command, "--version").split() == ["esker", esker.__version__]


def test_the_package_has_a_licence_and_links():
    metadata = importlib.metadata.metadata("esker")
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata.get_all("License-File") == ["LICENSE"]
    links = dict(url.split(", ", 1) for url in metadata.get_all("Project-URL"))
    assert {"Homepage", "Source", "Documentation", "Changelog", "Issues"} == set(links)
    assert all(url.startswith("https://") for url in links.values())


@BOTH
def test_the_exit_status_is_passed_on(command):
    ended = subprocess.run([*command, "no-such-command"], capture_output=True, text=True, timeout=600)
    assert ended.returncode == 2 and "no-such-command" in ended.stderr


@BOTH
def test_python_reads_files_that_programs_wrote(command, monkeypatch):
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="esker-python-", dir=place) as folder:
        monkeypatch.setenv("ESKER_POOLS", folder)
        run(command, "pool", "create", "tank", "--size", "128M", "--targets", "2")
        script = "echo from a shell >/esker/file; cat /esker/file"
        assert run(command, "run", "tank/files", "--create", "--", "sh", "-c", script) == "from a shell\n"
        with esker.Pool("tank") as pool, pool.container("files") as container:
            assert esker.FileSystem(container).open("file").read() == "from a shell\n"
        esker.Pool.destroy("tank", force=True)


def test_the_command_is_found_where_the_installer_recorded_it():
    assert main.command() == pathlib.Path(SCRIPT[0]).resolve()


def test_a_missing_command_is_reported_with_a_remedy(monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.metadata, "files", lambda name: None)
    monkeypatch.setattr(main, "__file__", str(tmp_path / "esker" / "__main__.py"))
    with pytest.raises(SystemExit, match="make wheel"):
        main.command()
    command = tmp_path / "bin" / "esker"
    command.parent.mkdir()
    command.write_text("")
    command.chmod(0o755)
    assert main.command() == command
