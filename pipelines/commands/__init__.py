"""One command of `hatstream` a file."""
