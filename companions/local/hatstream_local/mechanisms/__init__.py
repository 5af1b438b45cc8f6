"""Local privacy: values perturbed at their owner, once for each of several services, and what their reports tell."""

from hatstream_local.mechanisms.aggregate import aggregate
from hatstream_local.mechanisms.distributions import Distribution, maximum_likelihood, smoothed
from hatstream_local.mechanisms.laplace import Laplace
from hatstream_local.mechanisms.means import FusedMean, fused_mean
from hatstream_local.mechanisms.mechanism import LocalMechanism
from hatstream_local.mechanisms.piecewise import Piecewise
from hatstream_local.mechanisms.registry import LOCAL_MECHANISMS
from hatstream_local.mechanisms.reports import Reports, Service
from hatstream_local.mechanisms.sign import StochasticRounding
from hatstream_local.mechanisms.square_wave import SquareWave

__all__ = [
    "LOCAL_MECHANISMS",
    "Distribution",
    "FusedMean",
    "Laplace",
    "LocalMechanism",
    "Piecewise",
    "Reports",
    "Service",
    "SquareWave",
    "StochasticRounding",
    "aggregate",
    "fused_mean",
    "maximum_likelihood",
    "smoothed",
]
