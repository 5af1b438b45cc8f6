"""Fixed layouts with columns and units, one per file."""
