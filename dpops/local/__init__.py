"""Local privacy: values perturbed at their owner, once for each of several services, and what their reports tell."""

from dpops.local.aggregate import aggregate
from dpops.local.distributions import Distribution, maximum_likelihood, smoothed
from dpops.local.laplace import Laplace
from dpops.local.means import FusedMean, fused_mean
from dpops.local.mechanism import LocalMechanism
from dpops.local.piecewise import Piecewise
from dpops.local.registry import LOCAL_MECHANISMS
from dpops.local.reports import Reports, Service
from dpops.local.sign import StochasticRounding
from dpops.local.square_wave import SquareWave

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
