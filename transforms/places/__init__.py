"""Geography: H3 cells, their hierarchy, and regions."""
