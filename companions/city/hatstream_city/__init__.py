"""Drafts specifications from timetables and samples of feeds, and collects GTFS-realtime feeds."""
