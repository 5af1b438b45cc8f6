"""Layouts with columns and units of their own: one a file, which registers it under the file's name."""
