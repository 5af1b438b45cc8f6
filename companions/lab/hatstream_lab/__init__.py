"""Evaluates mechanisms, simulates a fleet, and starts test servers."""
