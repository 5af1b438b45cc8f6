"""Renders the map and the report, each as one HTML file without network."""
