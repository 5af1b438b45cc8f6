"""What the exit codes of `hatstream` mean, for schedulers."""

DONE = 0
WRONG_USE = 1
BAD_SPECIFICATION = 2
REFUSED = 3
"""By the account."""
FAILED = 4
"""Input or infrastructure."""
DIFFERS = 5
"""Done, but input or code differs from what was released before."""
