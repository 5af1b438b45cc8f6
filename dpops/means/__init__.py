"""Shared steps of mean mechanisms: grouping, capping, private quantiles."""
