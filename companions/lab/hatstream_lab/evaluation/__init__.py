"""Computes errors of releases on published, generated and real data."""
