"""Releases under a small total: bounded vectors over groups.

Adjacency add-remove: neighbours differ in one vehicle-day, its presence included. Nothing here depends on a count but
the noisy sums.
"""
