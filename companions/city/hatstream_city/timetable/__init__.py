"""Reads a town's public timetable (GTFS) and its fleet."""
