"""Local privacy: values perturbed by owners, and fused."""

from collections.abc import Callable

from hatstream_local.mechanisms.laplace import Laplace
from hatstream_local.mechanisms.mechanism import LocalMechanism
from hatstream_local.mechanisms.piecewise import Piecewise
from hatstream_local.mechanisms.sign import StochasticRounding
from hatstream_local.mechanisms.square_wave import SquareWave

LOCAL_MECHANISMS: dict[str, Callable[[float], LocalMechanism]] = {
    "laplace": Laplace,
    "pm": Piecewise,
    "sr": StochasticRounding,
    "sw": SquareWave,
}
