"""Geography: H3 cells, their hierarchy, and the cells of a region."""
