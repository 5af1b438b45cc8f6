"""Unbounded pipeline, its health and its engines."""
