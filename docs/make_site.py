"""Builds the documentation's site from the repository's Markdown files: python docs/make_site.py [--output site].

The files are gathered where they stand to each other as in the repository, so that their links hold in both. mkdocs
warns of a link that leads nowhere and of a page that the navigation lacks, and --strict makes that a failure.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
TOP = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE")
FOLDERS = ("docs", "deploy", "examples", "measurements")
KINDS = (".md", ".png", ".toml", ".json", ".ipynb", ".yaml", ".yml", ".sh", ".service", ".timer")
GROWING = {"Decisions": "docs/adr", "Programs": "docs/api"}
"""Sections of the navigation that hold every page of a folder, where it has one."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Builds the documentation's site.")
    parser.add_argument("--output", type=Path, default=ROOT / "site")
    output = parser.parse_args().output.resolve()
    source = ROOT / "build" / "site-source"
    gather(source)
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    settings |= {"docs_dir": str(source), "nav": navigation(settings["nav"])}
    python = settings["plugins"][1]["mkdocstrings"]["handlers"]["python"]
    python["paths"] = [str(ROOT)]
    python["options"]["extensions"] = [str(ROOT / "docs" / "doctest_blocks.py")]
    written = ROOT / "build" / "mkdocs.yml"
    written.write_text(yaml.safe_dump(settings, sort_keys=False))
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--clean"]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run([*command, "-f", written, "-d", output], cwd=ROOT, env=environment, check=False).returncode


def gather(source: Path) -> None:
    """Copies what the pages are made of into an empty folder."""
    shutil.rmtree(source, ignore_errors=True)
    found = [ROOT / name for name in TOP]
    found += [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in KINDS]
    for path in found:
        place = source / path.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)


def navigation(sections: list[dict[str, object]]) -> list[dict[str, object]]:
    """With the pages of GROWING in the place of their sections, by name."""
    found = []
    for section in sections:
        ((title, pages),) = section.items()
        if isinstance(pages, list):
            pages = [page for each in pages for page in _pages(each)]
        found.append({title: pages})
    return found


def _pages(each: object) -> list[object]:
    if not isinstance(each, dict):
        return [each]
    (title,) = each
    pages = sorted(str(path.relative_to(ROOT)) for path in (ROOT / GROWING[title]).glob("*.md"))
    return [{title: pages}] if pages else []


if __name__ == "__main__":
    sys.exit(main())
