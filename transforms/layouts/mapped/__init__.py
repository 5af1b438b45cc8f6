"""Layouts whose columns a specification maps: one a file, which registers it under the file's name."""
