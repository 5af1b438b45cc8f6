"""Maps, reports, portal folders and travel times of released statistics."""
