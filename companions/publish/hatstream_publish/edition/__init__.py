"""Makes a folder for open-data portals: tables, dictionary, privacy card, provenance, map."""
