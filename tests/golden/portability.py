"""What keeps a graph from running alike on every engine, found in its portable form."""

import re
from collections import Counter

from apache_beam.portability.api import beam_runner_api_pb2

DETERMINISTIC = {f"beam:coder:{name}:v1" for name in ("bool", "bytes", "kv", "string_utf8", "varint")}
"""Coders that every engine knows and that give equal keys equal bytes. A pickle may not."""
REQUIREMENTS = {"beam:requirement:pardo:splittable_dofn:v1"}
"""What an engine must be able to do; state, timers, stable input and an order in time have names of their own."""
TRIGGERS = {"default", "always"}  # those of windows that fire once, and of Beam's own reshuffle
_UNSTABLE = re.compile(r"lambda|\.py\b|:\d+|0x[0-9a-f]{4}")
_PARDO, _GROUP = "beam:transform:pardo:v1", "beam:transform:group_by_key:v1"


def labels(pipeline):
    """Names of all steps; the first has none, it is the whole."""
    return [step.unique_name for step in pipeline.components.transforms.values() if step.unique_name]


def findings(pipeline):
    """One sentence for everything that is amiss in a pipeline's proto, sorted."""
    problems = _of_labels(labels(pipeline)) + _of_windows(pipeline)
    for step in pipeline.components.transforms.values():
        if step.spec.urn == _GROUP:
            problems += _of_key(step, pipeline)
        if step.spec.urn == _PARDO:
            problems += _of_pardo(step)
    problems += [f"the engine must offer {need}" for need in set(pipeline.requirements) - REQUIREMENTS]
    return sorted(problems)


def _of_labels(names):
    twice = [f"{name}: two steps have this name" for name, number in Counter(names).items() if number > 1]
    return twice + [f"{name}: the name depends on lines of a program" for name in names if _UNSTABLE.search(name)]


def _of_windows(pipeline):
    problems = []
    for windows in pipeline.components.windowing_strategies.values():
        trigger = windows.trigger.WhichOneof("trigger")
        problems += [] if trigger in TRIGGERS else [f"windows have the trigger {trigger}"]
        problems += ["windows allow lateness"] if windows.allowed_lateness else []
    return problems


def _of_key(step, pipeline):
    (source,) = step.inputs.values()
    coders = pipeline.components.coders
    pair = coders[pipeline.components.pcollections[source].coder_id]
    if pair.spec.urn != "beam:coder:kv:v1":
        return [f"{step.unique_name}: groups by {pair.spec.urn}"]
    amiss = _urns(pair.component_coder_ids[0], coders) - DETERMINISTIC
    return [f"{step.unique_name}: its key is coded by {urn}" for urn in amiss]


def _urns(coder, coders):
    parts = coders[coder].component_coder_ids
    return {coders[coder].spec.urn}.union(*(_urns(part, coders) for part in parts))


def _of_pardo(step):
    payload = beam_runner_api_pb2.ParDoPayload.FromString(step.spec.payload)
    has = {"side inputs": payload.side_inputs, "state": payload.state_specs, "timers": payload.timer_family_specs}
    return [f"{step.unique_name}: has {what}" for what, parts in has.items() if parts]
