"""Ledger's form of releases: units, plans and their codec."""
