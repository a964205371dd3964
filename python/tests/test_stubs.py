"""The stub file describes the extension module: its members, their parameters, and the defaults of these."""

import subprocess
import sys

import pytest

pytest.importorskip("mypy")

# Differences that a stub file cannot avoid.
ALLOWED = r"""
# The package lists what is public.
esker\._esker\.__all__
# Inherited from MutableMapping, whose own stub has parameters without names.
esker\._esker\.(Attributes|Kv)\.(get|pop|setdefault)
# A path as the default is not shown.
esker\._esker\.FileSystem\.a?(listdir|scandir)
# Python shows the method for buffers from release 3.12 on.
esker\._esker\.View\.__buffer__
"""


def test_the_stub_describes_the_module(tmp_path):
    allowed = tmp_path / "allowed"
    allowed.write_text(ALLOWED)
    tool = [sys.executable, "-m", "mypy.stubtest", "--concise", "--ignore-unused-allowlist"]
    done = subprocess.run(
        [*tool, "--allowlist", allowed, "esker._esker"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout
