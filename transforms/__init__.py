"""Beam transforms from event to release, their pure functions, input layouts and the ledger."""
