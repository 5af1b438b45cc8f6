"""Beam transforms, their pure functions, input layouts and ledger."""
