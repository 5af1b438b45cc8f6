"""Tallies of vehicles in cells, and the form in which columns travel between stages."""
