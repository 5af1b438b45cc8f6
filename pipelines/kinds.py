"""Functions by kind of release, imported when called."""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipelines.specification import Specification

ROLES = {  # by role: module:name of its two functions, of hats and of levels, which take the same arguments
    "promise": "pipelines.account.guarantee:{}_sentence",
    "value": "pipelines.outputs:meaning_of_{}",
    "summary": "pipelines.commands.release_summary:summarise_{}",
    "shown": "pipelines.commands.release_summary:show_{}",
    "plan": "pipelines.commands.plan:plan_{}",
}


def of_kind(spec: "Specification", role: str) -> Callable[..., Any]:
    """Loads the function of a specification's kind of release. role: a key of `ROLES`."""
    module, _, name = ROLES[role].format("hats" if spec.kind == "hats" else "levels").partition(":")
    function: Callable[..., Any] = getattr(import_module(module), name)
    return function
