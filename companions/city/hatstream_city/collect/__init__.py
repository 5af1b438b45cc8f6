"""Collects a feed: polls an address for new messages."""
