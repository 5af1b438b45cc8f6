"""Runs of the pipeline: bounded locally or on an engine, unbounded, in callers' pipelines."""
