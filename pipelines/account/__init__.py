"""The account: where its ledger, key and head are, what it guarantees, which slots it lacks."""
