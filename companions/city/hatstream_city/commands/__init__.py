"""Commands of `hatstream`."""
