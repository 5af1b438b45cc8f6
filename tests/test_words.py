"""Variables say what they hold, and docstrings what a thing does: fewer and fewer of the product's do not."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ("dpops", "transforms", "pipelines", "hatstream")
WORDS = """
    found each at known mine said told these those of done made own other another one alone whole asked given taken kept
    rest what where when how same more further some many few most least before after beside apart by into reached across
    left alike usual
"""
EMPTY = frozenset(WORDS.split())
"""Names that say nothing of what a variable holds: participles, pronouns, adjectives."""
BACKWARD = ("Of ", "As ", "The same")
"""What a docstring must not begin with: its reader waits for a verb or a noun."""
MOST_EMPTY = 150
MOST_BACKWARD = 0
"""What operators, specifications, ledgers and result files see stays; it is among them."""


def trees(root: Path, packages: tuple[str, ...] = PACKAGES) -> Iterator[tuple[Path, ast.Module]]:
    for package in packages:
        for path in sorted((root / package).rglob("*.py")):
            yield path.relative_to(root), ast.parse(path.read_bytes())


def empty_names(root: Path) -> list[str]:
    """Where a variable or an argument is given a name that says nothing."""
    places = []
    for path, tree in trees(root, (*PACKAGES, "companions")):
        for node in ast.walk(tree):
            stored = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            name = node.id if stored else node.arg if isinstance(node, ast.arg) else None
            if name in EMPTY:
                places.append(f"{path}:{node.lineno}: {name}")
    return places


def backward_docstrings(root: Path) -> list[str]:
    """Where a docstring begins with neither a verb nor a noun."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        f"{path}: {text.splitlines()[0]}"
        for path, tree in trees(root)
        for node in ast.walk(tree)
        if isinstance(node, kinds) and (text := ast.get_docstring(node) or "").startswith(BACKWARD)
    ]


def verbless_docstrings(root: Path) -> list[str]:
    """Where a function's docstring does not begin with a verb in the third person; properties are nouns, commands
    speak to their user."""
    places = []
    for path, tree in trees(root):
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            text, marks = ast.get_docstring(node) or "", " ".join(map(ast.unparse, node.decorator_list))
            first = text.split()[0] if text else "says"
            if any(mark in marks for mark in ("property", "command", "group")):
                continue
            if not first.rstrip(",").endswith("s") or first.lower() in ("as", "is", "its", "this"):
                places.append(f"{path}:{node.lineno}: {text.splitlines()[0]}")
    return places


def test_docstrings_of_functions_begin_with_a_verb() -> None:
    assert verbless_docstrings(ROOT) == []


def test_no_more_variables_have_names_that_say_nothing() -> None:
    places = empty_names(ROOT)
    assert len(places) <= MOST_EMPTY, "\n".join([f"{len(places)} of at most {MOST_EMPTY}", *places])


def test_no_more_docstrings_begin_with_neither_verb_nor_noun() -> None:
    places = backward_docstrings(ROOT)
    assert len(places) <= MOST_BACKWARD, "\n".join([f"{len(places)} of at most {MOST_BACKWARD}", *places])


def test_a_docstring_without_a_verb_is_found(tmp_path: Path) -> None:
    (tmp_path / "dpops").mkdir()
    texts = ("The sum of a thing.", "values: what is added.", "Adds things up.", "Whether it is so.")
    source = "\n".join(f'def f{number}():\n    """{text}"""' for number, text in enumerate(texts))
    (tmp_path / "dpops" / "one.py").write_text(source + '\n@property\ndef p(self):\n    """The sum."""\n')
    told = [place.split(": ", 1)[1] for place in verbless_docstrings(tmp_path)]
    assert told == [texts[0], texts[1], texts[3]]
