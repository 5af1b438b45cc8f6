"""`python -m hatstream` is the command `hatstream`."""

from hatstream.command import run

run()
