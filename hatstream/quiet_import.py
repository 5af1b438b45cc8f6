"""Imports Beam without its complaint about libraries of Google's cloud that nothing here asks for."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

_COMPLAINT = "apitools not found"


@contextmanager
def beam_imported_quietly() -> Iterator[None]:
    """Keeps one warning of Beam's out of the log while the block lasts. It is Beam's to tell who imports Beam first."""
    root = logging.getLogger()
    root.addFilter(_is_no_complaint)
    try:
        yield
    finally:
        root.removeFilter(_is_no_complaint)


def _is_no_complaint(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith(_COMPLAINT)
