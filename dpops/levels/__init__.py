"""Releases under a small daily total: bounded integer vectors over groups.

Adjacency add-remove: neighbours differ in one vehicle-day, its presence included. Nothing here depends on a count but
the noisy sums.
"""
