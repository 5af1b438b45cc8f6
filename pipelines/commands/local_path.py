"""Where commands write: paths of this machine, not addresses."""

import re
from typing import Any

import click


class LocalPath(click.Path):
    """A path that is no address: s3://bucket/folder, for instance, would quietly become a folder of that name."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if scheme := re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", str(value)):
            self.fail(f"results are written to this machine's file system only, not to {scheme[1]}://", param, ctx)
        if not str(value):
            self.fail("a path is needed, and this one is empty", param, ctx)
        return super().convert(value, param, ctx)
