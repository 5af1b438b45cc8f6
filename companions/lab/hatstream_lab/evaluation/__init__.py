"""Errors of the mechanisms on published and generated data: what `hatstream evaluate` computes."""

NOT_PRIVATE = "NOT PRIVATE: these figures are functions of true values; do not publish them"
PROCESSES = 2
"""That simulate side by side."""
