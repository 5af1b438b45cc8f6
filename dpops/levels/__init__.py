"""One small total for a vehicle and its whole day: a bounded integer vector over coarse groups of HATs, summed up.

Adjacency add-remove: neighbours differ in one vehicle-day, that it drove at all included. Nothing here depends on a
count but the noisy sums.
"""
