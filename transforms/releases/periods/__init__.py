"""Releases of whole periods in stages, and inference from recorded stages."""
