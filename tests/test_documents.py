"""What the documents name is there: every file that they link to, and every path of a file or folder in their text."""

import re
import tomllib
from itertools import chain
from pathlib import Path

import click
import pytest

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
