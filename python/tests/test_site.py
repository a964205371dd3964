"""The landing page of the site, which scripts/site.sh completes, leads to pages that exist."""

import pathlib
import re

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
