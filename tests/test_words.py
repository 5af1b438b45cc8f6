"""Variables say what they hold, and docstrings what a thing does: fewer and fewer of the product's do not.

Functions are short, and a class's name means one thing: what syntax trees say is asked here, where they are made once.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parent.parent
PACKAGES = ("dpops", "transforms", "pipelines", "hatstream")
WORDS = """
    found each at known mine said told these those of done made own other another one alone whole asked given taken kept
    rest what where when how same more further some many few most least before after beside apart by into reached across
    left alike usual
"""
EMPTY = frozenset(WORDS.split())  # names that say nothing of what a variable holds: participles, pronouns, adjectives
BACKWARD = ("Of ", "As ", "The same")  # what a docstring must not begin with: its reader waits for a verb or a noun
MOST_EMPTY = 150  # what operators, specifications, ledgers and result files see stays; it is among them
LONGEST, MEDIAN = 14, 9  # words of a docstring's first line
LINES_OF_FUNCTION, FILES_WITH_SCOPE = 60, 2
QUOTED = """
    So many times what is learned
    Squares what a group's mean moves by
    is {back} before the last
    Of EM, for means that tell
    What is thought of a day
    Variances of what effects describe
    Releases hardly tell
    what their HATs have in common
    what few vehicles weigh
    Goes as far as the last two steps
    Holds the whole weight
    so far releases are believed
    Adds up what totals
    the HATs that teach
    what is left of each part
    Without the newest day, if
    In the column of cells stands
    What entries say beside
    what is new is what is there now
    What rows and files have on request
    out of its mind
    No file is late
    Says how the job is
    must be there, or
    stands behind --
"""
"""Sentences that a stranger could not place; they were rewritten, and their like is not to come back."""


NAMED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef, ast.arg, ast.Compare)


@cache
def parsed(path: Path) -> list[ast.AST]:
    """What has a docstring or gives a name, and comparisons."""
    nodes = ast.walk(ast.parse(path.read_bytes()))
    return [n for n in nodes if isinstance(n, NAMED) or (isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))]


def trees(root: Path, packages: tuple[str, ...] = PACKAGES) -> Iterator[tuple[Path, list[ast.AST]]]:
    for package in packages:
        for path in sorted((root / package).rglob("*.py")):
            yield path.relative_to(root), parsed(path)


def first_lines(root: Path) -> list[tuple[str, str]]:
    """The first line of each docstring of the product, with its file."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        (str(path), text.splitlines()[0])
        for path, nodes in trees(root, (*PACKAGES, "companions"))
        if "tests" not in path.parts and "build" not in path.parts
        for node in nodes
        if isinstance(node, kinds) and (text := ast.get_docstring(node))
    ]


def empty_names(root: Path) -> list[str]:
    """Where a variable or an argument is given a name that says nothing."""
    places = []
    for path, nodes in trees(root, (*PACKAGES, "companions")):
        for node in nodes:
            name = node.id if isinstance(node, ast.Name) else node.arg if isinstance(node, ast.arg) else None
            if name in EMPTY:
                places.append(f"{path}:{node.lineno}: {name}")
    return places


def verbless_docstrings(root: Path) -> list[str]:
    """Where a function's docstring does not begin with a verb in the third person; properties are nouns, commands
    speak to their user."""
    places = []
    for path, nodes in trees(root):
        for node in nodes:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            text, marks = ast.get_docstring(node) or "", " ".join(map(ast.unparse, node.decorator_list))
            first = text.split()[0] if text else "says"
            if any(mark in marks for mark in ("property", "command", "group")):
                continue
            if not first.rstrip(",").endswith("s") or first.lower() in ("as", "is", "its", "this"):
                places.append(f"{path}:{node.lineno}: {text.splitlines()[0]}")
    return places


def synonyms(glossary: str) -> set[str]:
    """The words that the glossary keeps out of names, as another term says the same."""
    return {word for words in re.findall(r"^\* .*?\bnot ([a-z, ]+?)\):", glossary, re.M) for word in words.split(", ")}


def named_by(root: Path, words: set[str]) -> list[str]:
    """Where a function, class, variable or argument has one of these words in its name."""
    places = []
    for path, nodes in trees(root, (*PACKAGES, "companions")):
        for node in nodes:
            name = next((getattr(node, of) for of in ("id", "name", "arg") if hasattr(node, of)), "")
            parts = {part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)}
            if "tests" not in path.parts and words & parts:
                places.append(f"{path}:{node.lineno}: {name}")
    return places


def test_a_thing_has_one_name() -> None:
    words = synonyms((ROOT / "docs" / "glossary.md").read_text())
    assert len(words) >= 20
    assert {"noised", "privatized", "persisted", "committed", "seal", "sealed", "posted"} <= words  # states of a unit
    assert named_by(ROOT, words) == []


def test_a_synonym_in_a_name_is_found(tmp_path: Path) -> None:
    assert synonyms("* **ledger** (log; not journal, day book): what\n* **unit**: not the other") == {
        "journal",
        "day book",
    }
    (tmp_path / "dpops").mkdir()
    (tmp_path / "dpops" / "one.py").write_text("class JournalOfDays:\n    def f(self, journal_url): old_journal = 1\n")
    assert len(named_by(tmp_path, {"journal"})) == 3


def test_a_docstring_begins_with_one_short_line() -> None:
    lines = first_lines(ROOT)
    assert [f"{path}: {line}" for path, line in lines if len(line.split()) > LONGEST] == []
    assert median(len(line.split()) for _, line in lines) <= MEDIAN


def test_no_sentence_that_a_stranger_could_not_place_is_back() -> None:
    sentences = [line.strip() for line in QUOTED.strip().splitlines()]
    texts = {path: path.read_text() for name in (*PACKAGES, "companions") for path in (ROOT / name).rglob("*.py")}
    found = [f"{path}: {sentence}" for path, text in texts.items() for sentence in sentences if sentence in text]
    assert found == []


def test_docstrings_of_functions_begin_with_a_verb() -> None:
    assert verbless_docstrings(ROOT) == []


def test_no_more_variables_have_names_that_say_nothing() -> None:
    places = empty_names(ROOT)
    assert len(places) <= MOST_EMPTY, "\n".join([f"{len(places)} of at most {MOST_EMPTY}", *places])


def test_no_docstring_begins_with_neither_verb_nor_noun() -> None:
    assert [f"{path}: {line}" for path, line in first_lines(ROOT) if line.startswith(BACKWARD)] == []


def of_product(*kinds: type[ast.AST]) -> list[tuple[str, Any]]:
    """All nodes of these kinds, each with its file."""
    folders = trees(ROOT, (*PACKAGES, "companions"))
    return [(str(path), node) for path, nodes in folders for node in nodes if isinstance(node, kinds)]


def test_no_function_is_longer_than_a_screen() -> None:
    functions = of_product(ast.FunctionDef, ast.AsyncFunctionDef)
    lines = {f"{path}: {node.name}": (node.end_lineno or 0) - node.lineno + 1 for path, node in functions}
    assert {name: number for name, number in lines.items() if number > LINES_OF_FUNCTION} == {}


def test_a_name_of_a_class_means_one_thing() -> None:
    classes = [(node.name, path) for path, node in of_product(ast.ClassDef) if "build" not in Path(path).parts]
    files_of = {name: [path for other, path in classes if other == name] for name, _ in classes}
    assert {name: paths for name, paths in files_of.items() if len(paths) > 1} == {}


def test_the_scope_of_a_budget_is_compared_in_two_files_at_most() -> None:
    """The allocation is asked instead, and the stored unit."""
    compared = [(path, [node.left, *node.comparators]) for path, node in of_product(ast.Compare)]
    scoped = {
        path for path, sides in compared if "scope" in [getattr(s, "attr", getattr(s, "id", None)) for s in sides]
    }
    assert len(scoped) <= FILES_WITH_SCOPE, sorted(scoped)


def test_a_long_first_line_is_found(tmp_path: Path) -> None:
    (tmp_path / "dpops").mkdir()
    (tmp_path / "dpops" / "one.py").write_text(f'"""{"word " * 15}."""\n')
    assert [len(line.split()) for _, line in first_lines(tmp_path)] == [16]


def test_a_docstring_without_a_verb_is_found(tmp_path: Path) -> None:
    (tmp_path / "dpops").mkdir()
    texts = ("The sum of a thing.", "values: what is added.", "Adds things up.", "Whether it is so.")
    source = "\n".join(f'def f{number}():\n    """{text}"""' for number, text in enumerate(texts))
    (tmp_path / "dpops" / "one.py").write_text(source + '\n@property\ndef p(self):\n    """The sum."""\n')
    told = [place.split(": ", 1)[1] for place in verbless_docstrings(tmp_path)]
    assert told == [texts[0], texts[1], texts[3]]
