"""Places: H3 cells, how they lie to one another, and the cells of a region."""
