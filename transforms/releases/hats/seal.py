"""A plan's tallies to what the ledger may record: where noise is drawn, with the places at which a test may stop it."""

from collections.abc import Mapping

from dpops.mechanism import PlanError
from dpops.noise import Noise
from transforms.errors import StepError
from transforms.failpoints import failpoint
from transforms.recorded.units import Sealed
from transforms.releases.hats.draw import draw_releases
from transforms.releases.hats.policy import Policy
from transforms.releases.slots import SlotFacts
from transforms.wire import Exposure, Tally


def sealed_releases(
    plan_s: int, shard: int, tally: Tally, slots: Mapping[int, SlotFacts], policy: Policy
) -> list[tuple[Sealed, Exposure]]:
    """As `draw_releases`, with noise of its own. Raises StepError where a HAT has no plan."""
    failpoint("before-noise")
    try:
        done = draw_releases(plan_s, shard, tally, slots, policy, Noise())
    except PlanError as error:
        raise StepError(f"a HAT cannot be released: {error}") from None
    failpoint("after-noise")
    return done
