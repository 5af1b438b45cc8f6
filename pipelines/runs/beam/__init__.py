"""A closed range's road as one bounded pipeline."""
