"""What the ledger keeps of a release."""
