"""Tallies of vehicles in cells, and their wire form."""
