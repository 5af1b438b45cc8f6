"""Releases of whole periods in stages, and their inference."""
