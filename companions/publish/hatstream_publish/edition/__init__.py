"""A folder that an open-data portal takes: tables, their dictionary, a privacy card, provenance, a map."""
