"""Shared parts of mean mechanisms: bounds, grouping, capping, private quantiles."""
