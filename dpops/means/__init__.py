"""Shared parts of mean mechanisms: contribution bounds, grouping into arrays, capping, private quantiles."""
