"""Differential privacy on numpy integers: noise, grouping, mechanisms, composition.

This package knows nothing of Beam, H3, Arrow, files or clocks.
"""
