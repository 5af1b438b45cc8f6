"""The local mechanisms by the name that a specification and a report use."""

from collections.abc import Callable

from dpops.local.laplace import Laplace
from dpops.local.mechanism import LocalMechanism
from dpops.local.piecewise import Piecewise
from dpops.local.sign import StochasticRounding
from dpops.local.square_wave import SquareWave

LOCAL_MECHANISMS: dict[str, Callable[[float], LocalMechanism]] = {
    "laplace": Laplace,
    "pm": Piecewise,
    "sr": StochasticRounding,
    "sw": SquareWave,
}
