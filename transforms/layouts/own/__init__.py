"""Fixed layouts with columns and units, one a file, registered under its name."""
