"""Exact discrete noise and exact private choices."""

from dpops.noise.discrete import MOST_SCALE, Noise
from dpops.noise.words import Entropy

__all__ = ["MOST_SCALE", "Entropy", "Noise"]
