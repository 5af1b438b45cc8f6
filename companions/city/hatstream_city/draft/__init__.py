"""Drafts a specification from a feed's sample."""
