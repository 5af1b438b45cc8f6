"""Adds what only a publisher knows: where the repository is. All other metadata is in pyproject.toml.

HATSTREAM_REPOSITORY=https://host/owner/hatstream make wheel: project URLs, and the README's links as absolute ones.
"""

import os
import re
from pathlib import Path

from setuptools import setup

PAGES = {
    "Documentation": "blob/main/docs/tutorial.md",
    "Changelog": "blob/main/CHANGELOG.md",
    "Security": "blob/main/SECURITY.md",
    "Issues": "issues",
}

readme = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")
repository = os.environ.get("HATSTREAM_REPOSITORY", "").rstrip("/")
urls = {}
if repository:
    urls = {"Repository": repository} | {name: f"{repository}/{path}" for name, path in PAGES.items()}
    readme = re.sub(r"(!\[[^]]*\]\()(?!https?:)", rf"\1{repository}/raw/main/", readme)
    readme = re.sub(r"\]\((?!https?:|#)", f"]({repository}/blob/main/", readme)

setup(project_urls=urls, long_description=readme, long_description_content_type="text/markdown")
