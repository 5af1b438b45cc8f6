"""Errors of the mechanisms on published and generated data: what `hatstream evaluate` computes."""
