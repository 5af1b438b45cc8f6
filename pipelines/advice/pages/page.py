"""One HTML file from a template: its data and the plotting library travel inside of it."""

import base64
import gzip
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import msgspec
from plotly.offline import get_plotlyjs

from transforms.atomic_files import replacing


def write_page(path: Path, template: str, data: Mapping[str, Any], **texts: Any) -> None:
    """Renders `template` to `path`, whole or not at all. data: what the page's program reads. May raise OSError."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("pipelines.advice.pages"), autoescape=True, undefined=jinja2.StrictUndefined
    )
    page = environment.get_template(template).render(data=_script_json(data), plotly=_plotly(), **texts)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(page.encode())


def _script_json(data: Mapping[str, Any]) -> str:
    """JSON that may stand inside a <script> element: no text of the data can end it."""
    return msgspec.json.encode(data).decode().replace("<", "\\u003c")


@cache
def _plotly() -> str:
    """plotly.js, compressed to a third: the browser unpacks it."""
    return base64.b64encode(gzip.compress(get_plotlyjs().encode(), mtime=0)).decode()
