"""Forecasts of specifications from counts and other public facts."""
