"""A worker that imports nothing, which a process of its own takes seconds for."""

import os
import time
from pathlib import Path


def works(connected, _):
    """A worker for as long as the file of its connection is there."""
    Path(connected).write_text(str(os.getpid()))
    while Path(connected).exists():
        time.sleep(0.02)
    Path(connected).with_suffix(".done").touch()
