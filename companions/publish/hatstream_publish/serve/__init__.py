"""A read-only server over published result files; it knows no ledger and no key."""
