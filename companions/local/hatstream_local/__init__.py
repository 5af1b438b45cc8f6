"""Fuses reports that vehicles perturbed themselves for several services."""
