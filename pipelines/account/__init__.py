"""Accounts: locations of ledger, key and head, privacy guarantee, missing slots."""
