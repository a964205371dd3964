"""The code of the tutorials, the how-tos and docs/python.md runs, page by page, in the order of the page.

Indented blocks and those of `sh` are commands of a shell, those of `python` are one program, whose lines of
output `# prints` tells. Each line of a block of `text` directly below is among what the page prints. A
block after the comment `<!-- needs: X -->` runs if X is a command or a path.
"""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

import pytest

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
PAGES = [DOCS / "python.md", *sorted(DOCS.glob("tutorials/*.md")), *sorted(DOCS.glob("howto/*.md"))]
# Time limit in seconds, after which a page counts as hanging.
PATIENCE = 600

BLOCK = re.compile(
    r"(?:^ *<!-- needs: (?P<need>.+) -->\n+)?"
    r"(?:^```(?P<language>\S+)\n(?P<fenced>(?s:.*?))^```$"
    r"|(?P<indented>(?:(?<=\n\n)|(?<=-->\n))    .*\n(?:\n?    .*\n)*))",
    re.M,
)

# Fields that scripts/weather.sh fetches.
WEATHER = DOCS.parent / "build" / "weather"

# Files that a page expects the reader to have, made by Python.
GIVEN = {
    "tutorials/weather-engineer.md": f"""
import pathlib
import shutil

for path in pathlib.Path({str(WEATHER)!r}).glob("*.grib"):
    shutil.copy(path, path.name)
""",
}

# Runs commands and stops at the first that fails, as a user would. Variables that they export are there for
# the blocks that follow.
SHELL = """
import os, subprocess, sys

def shell(commands):
    stop = "status=$?; [ $status -gt 128 ] || { echo failed: $BASH_COMMAND; exit $status; }"
    script = f"trap '{stop}' ERR\\n{commands}\\n{{ trap - ERR; env -0 >.environment; }} 2>/dev/null"
    done = subprocess.run(["bash", "-c", script], stdout=sys.stderr, stdin=subprocess.DEVNULL)
    if done.returncode:
        sys.exit(f"{commands}exit status {done.returncode}")
    take_over()

def take_over():
    with open(".environment") as file:
        os.environ.update(line.partition("=")[::2] for line in file.read().split("\\0") if line)

if os.path.exists(".environment"):
    take_over()
"""


def blocks(page):
    """The blocks of a page that can be run: the language, what is needed, and the text."""
    for found in BLOCK.finditer(page.read_text()):
        language, text = found["language"] or "sh", found["fenced"] or found["indented"] or ""
        if language in ("sh", "python"):
            yield language, found["need"], text


def outputs(page):
    """The lines of blocks of `text` directly below a block that is run: what it prints."""
    content, end = page.read_text(), None
    for found in BLOCK.finditer(content):
        if found["language"] in (None, "sh", "python"):
            end = found.end() if is_there(found["need"]) else None
        elif found["language"] == "text" and end is not None and not content[end : found.start()].strip():
            yield from found["fenced"].splitlines()


def test_blocks_of_text_below_code_that_runs_are_outputs(tmp_path):
    page = tmp_path / "page.md"
    code, text = "    true\n\n", "```text\n{}\n```\n\n"
    skipped = f"<!-- needs: no-such-command -->\n\n{code}{text.format(3)}"
    page.write_text(f"Prose.\n\n{code}{text.format(1)}Prose.\n\n{text.format(2)}{skipped}")
    assert list(outputs(page)) == ["1"]


def is_there(need):
    """True if what a block needs is here."""
    return need is None or shutil.which(need) is not None or os.access(need, os.W_OK)


def programs(page, scratch):
    """A page as two Python programs: up to its last block of Python, and the commands after that.

    The second starts when the first has ended, as a reader has left Python by then. Pools are smaller, and in
    the directory `scratch`.
    """
    lines = [(language, text) for language, need, text in blocks(page) if is_there(need)]
    last = max((number for number, (language, _) in enumerate(lines, 1) if language == "python"), default=0)
    given = GIVEN.get(page.relative_to(DOCS).as_posix(), "")
    for part in ([("python", given), *lines[:last]], lines[last:]):
        code = [text if language == "python" else f"shell({text!r})" for language, text in part]
        code = re.sub(r"--size \d+G", "--size 512M", "\n".join([SHELL, *code]))
        yield code.replace("/dev/shm", str(scratch))


@pytest.fixture
def scratch():
    """A directory for pools, in memory if possible."""
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="esker-pages-", dir=place) as folder:
        yield pathlib.Path(folder)


def run(code, folder, pools):
    """Run a program, and end all that it started; return its exit status, output and errors."""
    (folder / "page.py").write_text(code)
    path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    place = {"HOME": str(folder), "ESKER_POOLS": str(pools), "PATH": path}
    with open(folder / "out", "w+") as out, open(folder / "err", "w+") as err:
        started = subprocess.Popen(
            [sys.executable, "page.py"],
            env={**os.environ, **place},
            cwd=folder,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        try:
            status = started.wait(PATIENCE)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGKILL)
        out.seek(0), err.seek(0)
        return status, out.read(), err.read()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_runs(page, scratch, tmp_path):
    code, more = programs(page, scratch)
    if str(WEATHER) in code and not WEATHER.exists():
        pytest.skip("no weather: scripts/weather.sh fetches it")
    for needed in sorted(set(re.findall(r"^(?:import|from) (\w+)", code, re.M)) - {"esker", "pydaos"}):
        pytest.importorskip(needed)
    status, shown, errors = run(code, tmp_path, scratch)
    if "pip download" in code and "NewConnectionError" in errors:
        pytest.skip("no network: the page downloads its data")
    assert status == 0, errors
    expected = re.findall(r"# prints (.+)", code)
    said = shown + errors
    status, more_shown, errors = run(more, tmp_path, scratch)
    assert status == 0, errors
    assert not expected or shown.splitlines() == expected
    lines = {line.strip() for line in (said + more_shown + errors).splitlines()}
    assert [line for line in outputs(page) if line != "..." and line.strip() not in lines] == []


NEEDED = [(page, need) for page in PAGES for _, need, _ in blocks(page) if not is_there(need)]


def test_the_tutorial_fetches_the_weather_of_the_script():
    pinned = (DOCS.parent / "python" / "requirements-weather.txt").read_text()
    (version,) = re.findall(r"^cfgrib==(\S+)", pinned, re.M)
    page, script = DOCS / "tutorials/weather-engineer.md", DOCS.parent / "scripts/weather.sh"
    assert set(re.findall(r"cfgrib[=-]=?(\d[\d.]*\d)", page.read_text())) == {version}
    moved = re.findall(r"^ +mv (\S+\.grib) (\S+\.grib)$", page.read_text(), re.M)
    assert moved and moved == re.findall(r'\$samples/(\S+)" "\$folder/(\S+)"', script.read_text())


@pytest.mark.parametrize(("page", "need"), NEEDED, ids=lambda value: getattr(value, "stem", value))
def test_a_block_that_needs_more(page, need):
    pytest.skip(f"a block of {page.name} needs {need}")
