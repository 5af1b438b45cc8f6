"""Makes a folder for portals: tables, records and map."""
