"""The road of an event as Beam transforms, with the pure functions they call, the input layouts and the ledger."""
