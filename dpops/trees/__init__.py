"""Noisy distributions over public bins: level-uniform trees, consistent estimates, quantiles and moments."""
