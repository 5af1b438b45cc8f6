"""Reads a static timetable (GTFS) of a town and its fleet; all public."""
