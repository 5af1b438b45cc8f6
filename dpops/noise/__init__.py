"""Exact discrete noise and private choices, drawn in vectors from one source of randomness."""

from dpops.noise.source import Noise
from dpops.noise.words import Entropy

__all__ = ["Entropy", "Noise"]
