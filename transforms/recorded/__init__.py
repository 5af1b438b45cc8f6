"""Ledger's form of releases: units and plans."""
