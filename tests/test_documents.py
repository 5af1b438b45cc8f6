"""The documents name what is there, their site has a place for each, and each claim of the guarantee has its tests."""

import json
import re
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path

import click
import pytest
import yaml

from benchmarks import assurance
from pipelines.cli import COMMANDS, hatstream
from pipelines.companions import COMPANION_COMMANDS
from transforms.sinks.published import COLUMNS

ROOT = Path(__file__).parents[1]
MOST_WORDS = 32_000
ROOMS = r"dpops|transforms|pipelines|tests|docs|benchmarks|deploy|examples|hatstream|companions|measurements|\.ci"
DOCUMENTS = sorted(
    chain(
        ROOT.glob("*.md"),
        *(ROOT.glob(f"{folder}/**/*.md") for folder in ("docs", "deploy", "measurements")),
        ROOT.glob("companions/*/*.md"),
        [ROOT / "docs/draw_diagrams.py"],
    )
)
LINK = re.compile(r"\]\(([^)#\s]*)(#[^)]*)?\)")
FENCED = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)  # what is run or shown there is tried elsewhere
PATH = re.compile(rf"(?<![\w./-])(?:{ROOMS})/[\w./-]*")


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


def words(*folders):
    return sum(len(path.read_text().split()) for folder in folders for path in (ROOT / folder).rglob("*.md"))


def test_the_documents_stay_short():
    """As `wc -w` counts them: marks of tables and commands too. Logs lie in measurements/, outside the navigation."""
    assert words("docs", "deploy") <= MOST_WORDS
    assert len((ROOT / "README.md").read_text().split()) <= 1_500
    assert len((ROOT / "docs" / "released.md").read_text().split()) <= 5_000


def test_the_glossary_is_short_and_of_words_that_are_used():
    terms = re.findall(r"^\* \*\*(.+?)\*\*", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)
    others = " ".join(" ".join(path.read_text().lower().split()) for path in DOCUMENTS if path.name != "glossary.md")
    assert 30 <= len(terms) == len(set(terms)) <= 60
    assert [term for term in terms if term.lower() not in others] == []


@pytest.mark.parametrize("page", sorted(ROOT.glob("measurements/*.md")), ids=lambda path: path.name)
def test_every_measurement_names_what_made_it(page):
    assert re.search(r"hatstream (evaluate|release)|benchmarks[./]|make \w+", page.read_text())


def test_every_command_is_listed():
    page = (ROOT / "docs" / "commands.md").read_text()
    assert [name for name in (*COMPANION_COMMANDS, *commands(hatstream, "")) if f"`{name}`" not in page] == []


def commands(group, before):
    """Names of the core's commands as they are typed, of groups too."""
    with click.Context(group) as context:
        for name in COMMANDS if group is hatstream else group.list_commands(context):
            if f"{before}{name}" not in COMPANION_COMMANDS:
                command = group.get_command(context, name)
                inner = isinstance(command, click.Group)
                yield from commands(command, f"{before}{name} ") if inner else [f"{before}{name}"]


def test_every_column_is_listed():
    page = (ROOT / "docs" / "columns.md").read_text()
    ends = re.compile(r"(p15|p50|p85|mean|variance)_(lower|upper)95")
    assert [column.name for column in COLUMNS if not ends.match(column.name) and f"`{column.name}`" not in page] == []


def test_the_changelog_is_short_and_of_this_version():
    lines = (ROOT / "CHANGELOG.md").read_text().splitlines()
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert len(lines) <= 150
    assert any(line.startswith(f"## {version} ") for line in lines)
    assert f"version {version.rpartition('.')[0]}," in (ROOT / "SECURITY.md").read_text()


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


def test_every_leak_that_is_listed_was_found() -> None:
    results = json.loads(assurance.RESULTS.read_text())
    assert len(results["mutants"]) >= 25
    assert [mutant["name"] for mutant in results["mutants"] if not mutant["found"]] == []


def test_every_sentence_of_the_guarantee_has_a_test_that_is_there() -> None:
    claims = assurance.CLAIMS.read_text().splitlines()[2:]
    named = {claim: assurance.tests_of(claim) for claim in claims}
    assert len(claims) > 20
    assert [claim for claim, tests in named.items() if not tests] == []
    assert {test for tests in named.values() for test in tests if not (ROOT / test).exists()} == set()


def test_the_page_is_made_of_results_and_claims() -> None:
    made = assurance.page(json.loads(assurance.RESULTS.read_text()), assurance.CLAIMS.read_text())
    assert made == assurance.PAGE.read_text()
