"""Exact discrete noise and private choices, drawn in vectors from one source of randomness."""

from dpops.noise.laplace import MOST_SCALE, Entropy, Noise

__all__ = ["MOST_SCALE", "Entropy", "Noise"]
