"""Pages for people: the map and the report, each one HTML file that opens from disk without a network."""
