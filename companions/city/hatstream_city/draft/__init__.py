"""Drafts a specification from a sample of a feed: layout, columns, units, zone, cells. A person checks it."""
