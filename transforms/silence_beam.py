"""Silences Beam's logging; import this before Beam.

A log line is an output channel that carries nothing (docs/guarantee.md).
"""

import logging

logging.getLogger().setLevel(logging.CRITICAL)
