"""Drafts specifications, and collects GTFS-realtime feeds."""
