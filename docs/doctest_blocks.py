"""Shows the doctests of docstrings as code in the documentation's site, and not as quotations."""

import re
from typing import Any

import griffe

DOCTEST = re.compile(r"^>>> .*(?:\n(?!\s*$).*)*", re.MULTILINE)


class DoctestBlocks(griffe.Extension):
    """Fences the doctests of every docstring."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = DOCTEST.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)
