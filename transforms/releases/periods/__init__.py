"""A release of a whole period in stages, and what is learned from those that are recorded."""
