"""Runs of pipelines: bounded, unbounded, and in callers' pipelines."""
