"""Temporary accounts for tests and first steps."""

import atexit
import shutil
import tempfile
from pathlib import Path
from typing import Any

from pipelines.runs.per_key import Total, UserAccount


def account(limit: Total, **terms: Any) -> UserAccount:
    """Opens a new account in a temporary folder, removed at process end.

    Never use it for real data: each new account allows spending the limit again, unnoticed.

    Args:
        terms: Fields of `hatstream.UserAccount`, such as hides="values".

    >>> account(1.0).location.ledger.exists()
    True
    """
    folder = tempfile.mkdtemp(prefix="hatstream-account-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return UserAccount(limit=limit, ledger=str(Path(folder, "ledger.sqlite")), **terms).open()
