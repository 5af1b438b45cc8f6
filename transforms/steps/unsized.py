"""Elements that never leave their worker, whose size Beam need not know: to find it out it would pickle them."""

import pickle
from typing import Any

from apache_beam import coders
from apache_beam.coders.typecoders import registry
from apache_beam.pvalue import PCollection


class UnsizedCoder(coders.Coder):
    """Pickles if it must, and tells no size: a slot has a hundred thousand Python objects."""

    def encode(self, value: Any) -> bytes:
        return pickle.dumps(value)

    def decode(self, encoded: bytes) -> Any:
        return pickle.loads(encoded)

    def estimate_size(self, value: Any) -> int:  # noqa: ARG002 - Beam's interface
        return 0

    def is_deterministic(self) -> bool:
        return False


def of_type(elements: PCollection[Any], kind: type) -> PCollection[Any]:
    """Gives the elements their type, which has an unsized coder, also where a pipeline infers no types."""
    registry.register_coder(kind, UnsizedCoder)
    elements.element_type = kind
    return elements
