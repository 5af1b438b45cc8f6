"""Typed PTransforms, each wiring around a pure function."""
