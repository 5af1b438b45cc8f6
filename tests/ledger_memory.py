"""Lets SQLAlchemy remember what it compiled for every ledger on a database of the same kind: a tenth of a release.

It remembers them for each engine, and a test makes engines of its own. What a statement becomes depends on the kind of
database alone.
"""

from typing import Any

import sqlalchemy as sa

_create_engine = sa.create_engine


class _Compiled(dict[Any, Any]):
    """SQLAlchemy asks by the engine's dialect and what makes the statement."""

    def get(self, key: tuple[Any, ...], default: Any = None) -> Any:
        return super().get((type(key[0]), *key[1:]), default)

    def __setitem__(self, key: tuple[Any, ...], compiled: Any) -> None:
        super().__setitem__((type(key[0]), *key[1:]), compiled)


_COMPILED = _Compiled()


def let_ledgers_remember() -> None:
    """In this process, from now on."""
    sa.create_engine = _remembering


def _remembering(url: Any, *, execution_options: dict[str, Any] | None = None, **options: Any) -> sa.Engine:
    return _create_engine(url, execution_options={**(execution_options or {}), "compiled_cache": _COMPILED}, **options)
