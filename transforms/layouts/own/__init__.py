"""Fixed layouts, with columns and units of their own."""
