"""Drafts a specification from a feed's sample: layout, columns, units, zone, cells."""
