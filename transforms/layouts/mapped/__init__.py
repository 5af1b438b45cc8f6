"""Layouts whose columns a specification names."""
