"""Renders the map and the report as HTML files."""
