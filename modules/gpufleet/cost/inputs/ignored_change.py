"""Changes that a program tells the engine to ignore: the values before the change count, as in a deployment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gpufleet.cost.inputs.alias import rename_aliased_resources
from gpufleet.engine import StateResource, reset_ignored_inputs

Resources = tuple[StateResource, ...]


def settle_like_engine(
    before: Iterable[StateResource], after: Iterable[StateResource]
) -> tuple[Resources, Resources, list[str]]:
    """Return the resources of two programs, or of a state and a program, as the engine would compare them.

    Aliases give those before the names of those after; ignored inputs keep their old values. The third value has a
    warning for each resource whose inputs differ from what its program says.
    """
    new = tuple(after)
    old = rename_aliased_resources(before, new)
    old_by_urn = {each.urn: each for each in old if not each.delete}
    settled, warnings = [], []
    for resource in new:
        earlier = old_by_urn.get(resource.urn)
        if earlier is None or not resource.ignore_changes:
            settled.append(resource)
            continue
        inputs = reset_ignored_inputs(resource.inputs, earlier.inputs, resource.ignore_changes)
        if inputs != resource.inputs:
            names = ", ".join(resource.ignore_changes)
            warnings.append(
                f"{resource.name} ignores changes to {names}: what it has before the change counts here"
            )
        settled.append(replace(resource, inputs=inputs))
    return old, tuple(settled), warnings
