"""Evaluates mechanisms, simulates a bus fleet, and starts servers for tests."""
