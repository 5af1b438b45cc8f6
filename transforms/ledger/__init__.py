"""Ledger: accounts, debits and releases, chained by hashes."""
