"""From raw columns to observations: checks, units, vehicle hashes, hexagons."""
