"""Maps, reports and portal folders of released statistics."""
