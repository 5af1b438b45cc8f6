"""Releases of HATs: public plans, noisy integers, estimates."""
