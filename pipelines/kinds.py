"""Functions of kinds of release that have words of their own, by the names of `transforms.releases.registry`."""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from transforms.releases import registry

if TYPE_CHECKING:
    from pipelines.specification import Specification


class Said(NamedTuple):
    """Functions of a specification, as module:name; a module loads when its function is asked for.

    promise(spec, bounds, hat, spent): the guarantee, as `guarantee.sentence` says. value(spec): which mean a mean is.
    summary(spec, done, place): what a run did; shown(summary, console): the same as tables.
    plan(spec, within_kmh, given, progress): a `Made` of commands/plan.py.
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
