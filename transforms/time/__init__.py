"""Slots, periods, watermarks and lateness."""
