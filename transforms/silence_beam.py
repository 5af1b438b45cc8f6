"""Silences Beam, which speaks as soon as it is imported and logs what it works on. Import this first.

Our own errors are worded in pipelines/cli.py; a log line is an output channel that carries nothing (docs/guarantee.md).
"""

import logging

logging.getLogger().setLevel(logging.CRITICAL)
