"""The documentation's site: every page has its place, and none asks another server for anything."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
FETCHED = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=["']?https?://""")


def pages_in(nav):
    for entry in nav:
        if isinstance(entry, dict):
            (inner,) = entry.values()
            yield from [inner] if isinstance(inner, str) else pages_in(inner)
        else:
            yield entry


def test_the_navigation_holds_every_page():
    pages = set(pages_in(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]))
    folders = tuple(page for page in pages if page.endswith("/"))
    there = {
        path.relative_to(ROOT).as_posix()
        for top in ("docs", "deploy", "examples")
        for path in (ROOT / top).rglob("*.md")
    }
    assert {page for page in there - pages if not page.startswith(folders)} == set()
    assert all((ROOT / page).is_file() for page in pages - set(folders))


def test_every_decision_is_listed():
    listed = (ROOT / "docs" / "adr" / "README.md").read_text()
    assert all(f"({path.name})" in listed for path in (ROOT / "docs" / "adr").glob("0*.md"))


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_asks_no_other_server(tmp_path):
    command = [sys.executable, ROOT / "docs" / "make_site.py", "--output", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pages = {path: path.read_text() for path in tmp_path.rglob("*.html")}
    assert {"index.html", "tutorial.html", "release.html", "SECURITY.html"} <= {path.name for path in pages}
    assert not any(FETCHED.search(text) for text in pages.values())
