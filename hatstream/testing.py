"""For tests and first steps alone: an account that is gone when the process ends, and with it what was spent."""

import atexit
import shutil
import tempfile
from pathlib import Path
from typing import Any

from pipelines.runs.per_key import Total, UserAccount


def account(limit: Total, **terms: Any) -> UserAccount:
    """Opens a new account in a temporary folder, which is removed when the process ends.

    Never for data of real users: whoever opens another one may spend the limit again, and nobody can tell.

    Args:
        limit: An epsilon, or an epsilon and a delta.
        terms: Of `hatstream.UserAccount`, such as hides="values".

    >>> account(1.0).location.ledger.exists()
    True
    """
    folder = tempfile.mkdtemp(prefix="hatstream-account-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return UserAccount(limit=limit, ledger=str(Path(folder, "ledger.sqlite")), **terms).open()
