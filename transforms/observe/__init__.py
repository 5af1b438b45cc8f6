"""From raw columns to observations: checks, units, hashes."""
