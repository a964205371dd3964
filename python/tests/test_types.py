"""The code in the README and the tutorials passes a type checker with the package's type hints."""

import pathlib
import re
import subprocess
import sys

import pytest

pytest.importorskip("mypy")

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "tutorials").glob("*.md"))]

PRELUDE = """
import esker
import numpy
import xarray

values = numpy.zeros(8)
"""

MORE = """
kv: esker.Kv = esker.Pool("tank").container("run1").kv("index")
kv["values"] = values
taken: bytes = kv["values"]
array = esker.Pool("tank").container("run1").array("t2m")
array.read_into(0, values)
numpy.frombuffer(memoryview(array.view(0, 8)), "f8")
for key, value in kv.items():
    print(key, len(value))
"""

WRONG = """
esker.Pool("tank").container("run1").array("t2m").write("zero", values)
"""


def check(text, python, tmp_path):
    """The exit status and output of mypy for a program."""
    program = tmp_path / "program.py"
    program.write_text(PRELUDE + text)
    options = ["--strict", "--cache-dir", str(tmp_path / "cache"), "--python-version", python]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, program], stdout=subprocess.PIPE, text=True, timeout=600
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize("python", ["3.11", "3.13"])
def test_the_code_of_the_pages_passes(python, tmp_path):
    blocks = [
        block
        for page in PAGES
        for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S)
    ]
    assert len(blocks) >= 4
    status, words = check("\n".join(blocks) + MORE, python, tmp_path)
    assert status == 0, words


def test_a_wrong_call_fails(tmp_path):
    status, words = check(WRONG, "3.11", tmp_path)
    assert status == 1 and "write" in words
