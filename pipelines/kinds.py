"""Functions that differ by kind of release, by names of `transforms.releases.registry`."""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from transforms.releases import registry

if TYPE_CHECKING:
    from pipelines.specification import Specification


class Said(NamedTuple):
    """Lazily loaded functions of a specification, as module:name.

    promise(spec, bounds, hat, spent): see `guarantee.sentence`. value(spec): description of a mean. summary(spec, done,
    place): summary of a run; shown(summary, console): its tables. plan(spec, within_kmh, given, progress): a `Made` of
    commands/plan.py.
    """

    promise: str
    value: str
    summary: str
    shown: str
    plan: str


KINDS = {
    "hats": Said(
        "pipelines.account.guarantee:hats_sentence",
        "pipelines.outputs:meaning_of_hats",
        "pipelines.commands.release_summary:summarise",
        "pipelines.commands.release_summary:show",
        "pipelines.commands.plan:plan_hats",
    ),
    "levels": Said(
        "pipelines.account.guarantee:levels_sentence",
        "pipelines.outputs:meaning_of_levels",
        "pipelines.commands.release_summary:summarise_levels",
        "pipelines.commands.release_summary:show_levels",
        "pipelines.commands.plan:plan_levels",
    ),
}


def of_kind(spec: "Specification", role: str) -> Callable[..., Any]:
    """Loads the function of a specification's kind of release. role: a field of `Said`."""
    worded = registry.KINDS[spec.kind].worded or spec.kind
    module, _, name = getattr(KINDS[worded], role).partition(":")
    function: Callable[..., Any] = getattr(import_module(module), name)
    return function
