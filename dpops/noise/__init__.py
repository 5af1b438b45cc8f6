"""Exact discrete noise and private choices, drawn in vectors from one source of randomness."""

from dpops.noise.laplace import MOST_SCALE
from dpops.noise.source import Noise
from dpops.noise.words import Entropy

__all__ = ["MOST_SCALE", "Entropy", "Noise"]
