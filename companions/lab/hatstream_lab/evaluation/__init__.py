"""Computes errors of releases, on several kinds of data."""
