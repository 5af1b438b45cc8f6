"""Where a mechanism's bias usually pulls what it releases: the model beside it asks, and it is no promise."""

from typing import NamedTuple


class Pull(NamedTuple):
    """How far released means usually lie above the true ones, in units of the worst bias squared over U.

    sd: how far one HAT's pull may be from the usual. clips: whether values or sums of values are clipped, so that what
    is released varies less than the truth does. Caps on counts do not: they take away reports, most of them slow ones.
    Each mechanism's numbers were fitted on Austin's buses, and tried on made-up cities (docs/hats-measured.md).
    """

    usual: float = 0.6
    sd: float = 0.18
    clips: bool = False
