"""Layouts with mapped columns, registered by their files' names."""
