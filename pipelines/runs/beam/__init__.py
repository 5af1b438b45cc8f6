"""The road of a closed range as one bounded pipeline."""
