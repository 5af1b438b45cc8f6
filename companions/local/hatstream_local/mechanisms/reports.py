"""Reports of many users to several services, as one table of columns."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hatstream_local.mechanisms.mechanism import Float64s, LocalMechanism


@dataclass(frozen=True, slots=True)
class Service:
    """One receiver of reports; each user perturbs its value for it independently of the other services."""

    name: str
    mechanism: LocalMechanism


@dataclass(frozen=True, slots=True)
class Reports:
    """values: float64 (services, users), raw reports; NaN where a user has not answered a service.

    Services are kept in the order of their names, so that fusion gives the same bits in whatever order they came.
    """

    services: Sequence[Service]
    values: Float64s

    def __post_init__(self) -> None:
        names = [service.name for service in self.services]
        if not names or len(set(names)) != len(names):
            raise ValueError("reports need at least one service, and services need different names")
        if self.values.ndim != 2 or self.values.shape[0] != len(names):
            raise ValueError(f"reports of {len(names)} services need as many rows, got shape {self.values.shape}")
        order = sorted(range(len(names)), key=names.__getitem__)
        if order != list(range(len(names))):
            object.__setattr__(self, "services", [self.services[i] for i in order])
            object.__setattr__(self, "values", self.values[order])

    @property
    def users(self) -> int:
        return int(self.values.shape[1])

    def of(self, first: int, last: int) -> "Reports":
        """Takes the users first..last - 1."""
        return Reports(self.services, self.values[:, first:last])

    def leakage(self) -> float:
        """Computes the most epsilon that any of these users has given away: the sum over the services it answered."""
        epsilons = np.array([service.mechanism.epsilon for service in self.services])
        return float(np.max(epsilons @ ~np.isnan(self.values), initial=0.0))
