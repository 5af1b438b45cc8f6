"""What the documents name is there: every file that they link to, and every path of a file or folder in their text."""

import re
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = (
    "dpops",
    "transforms",
    "pipelines",
    "tests",
    "docs",
    "benchmarks",
    "deploy",
    "examples",
    "hatstream",
    "companions",
    ".ci",
)
DOCUMENTS = sorted(
    chain(ROOT.glob("*.md"), ROOT.glob("docs/**/*.md"), ROOT.glob("deploy/**/*.md"), ROOT.glob("companions/*/*.md"))
)
LINK = re.compile(r"\]\(([^)#\s]*)(#[^)]*)?\)")
FENCED = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)  # what is run or shown there is tried elsewhere
PATH = re.compile(rf"(?<![\w./-])(?:{'|'.join(map(re.escape, ROOMS))})/[\w./-]*")


def headings(document):
    """The anchors of a document's headings, as they are linked to."""
    titles = re.findall(r"^#+ (.*)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in titles}


def missing(document):
    """Links and paths of a document that lead nowhere. What a command makes lies in `build`, which is no room."""
    text = document.read_text()
    for link, anchor in LINK.findall(text):
        target = document if not link else document.parent / link
        if "://" in link:
            continue
        if not target.exists():
            yield link
        elif anchor and target.suffix == ".md" and anchor[1:] not in headings(target):
            yield f"{link}{anchor}"
    for name in PATH.findall(FENCED.sub("", text)):
        name = name.rstrip("./")
        made = Path(name).name.startswith(".")  # by the reader, as .env is
        if not (made or (ROOT / name).exists() or (document.parent / name).exists()):
            yield name


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_document_names_is_there(document):
    assert list(missing(document)) == []


def test_a_name_that_leads_nowhere_is_told(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# One page\n[here](#one-page), [there](#two), [gone](gone.md), `dpops/nothing.py`, `dpops/noise/`")
    assert list(missing(page)) == ["#two", "gone.md", "dpops/nothing.py"]
