"""Accounts: location, backup, privacy guarantee and missing slots."""
