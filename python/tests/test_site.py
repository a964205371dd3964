"""The landing page of the site, which scripts/site.sh completes, leads to pages that exist."""

import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
LANDING = ROOT / "docs" / "site" / "index.html"


def test_the_landing_page_links_to_pages_of_the_book():
    linked = re.findall(r'(?:href|src)="book/([^"]+)"', LANDING.read_text())
    assert len(linked) > 8
    for page in set(linked) - {"index.html"}:
        assert (ROOT / page.replace(".html", ".md")).exists(), page


def test_the_landing_page_has_the_places_that_the_script_fills():
    page, script = LANDING.read_text(), (ROOT / "scripts" / "site.sh").read_text()
    for mark in ("<!-- references -->", "<!-- version -->", "<!-- home -->"):
        assert page.count(mark) == 1 and mark in script


def test_the_landing_page_leads_to_every_tutorial():
    tutorials = {path.stem for path in (ROOT / "docs" / "tutorials").glob("*.md")}
    assert set(re.findall(r"book/docs/tutorials/(.+?)\.html", LANDING.read_text())) == tutorials


def test_the_reference_of_c_lists_every_header():
    listed = set(re.findall(r"\w+\.h\b", (ROOT / "docs" / "site" / "c.dox").read_text()))
    assert listed == {path.name for path in (ROOT / "include").glob("*.h")}


def test_the_book_lists_decisions_by_number_and_title():
    script, index = (ROOT / "scripts" / "book.sh").read_text(), ROOT / "docs" / "decisions" / "README.md"
    (expression,) = re.findall(r"^sed -nE '(.+)' docs/decisions/README.md", script, re.M)
    listed = subprocess.run(
        ["sed", "-nE", expression, index], capture_output=True, text=True, check=True
    ).stdout
    assert "|" not in listed and len(listed.splitlines()) == len(list(index.parent.glob("0*.md")))
