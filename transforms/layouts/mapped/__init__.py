"""Layouts with mapped columns, one a file, registered under its name."""
