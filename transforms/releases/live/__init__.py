"""A release of slots while their period lasts."""
