"""Collecting a feed: polls an address for GTFS-realtime messages and keeps each new one."""
