"""The kinds of release: what is drawn of a slot or period, and what is estimated from it."""
