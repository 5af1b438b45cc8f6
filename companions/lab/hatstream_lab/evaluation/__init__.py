"""Errors of what is released, on published, generated and real data: what `hatstream evaluate` computes."""
