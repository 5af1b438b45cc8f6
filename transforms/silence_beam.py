"""Silences Beam, which logs what it works on; import this first.

A log line is an output channel that carries nothing (docs/guarantee.md).
"""

import logging

logging.getLogger().setLevel(logging.CRITICAL)
