"""What the engine keeps although the program changes: ignored inputs, and resources that it must not delete."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from gpufleet.cost.inputs.alias import rename_aliased_resources
from gpufleet.cost.inputs.stack_change import describe_kept_resource
from gpufleet.engine import StateResource, reset_ignored_inputs

Resources = tuple[StateResource, ...]


def settle_like_engine(
    before: Iterable[StateResource], after: Iterable[StateResource]
) -> tuple[Resources, Resources, list[str]]:
    """Return the resources of two programs, or of a state and a program, as the engine would compare them.

    Aliases give those before the names of those after; ignored inputs keep their old values; what is removed but
    retained or protected still bills. The third value has a warning for each resource that differs from its program.
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
    kept, kept_warnings = _keep_removed_resources(old_by_urn, {each.urn for each in new})
    return old, (*settled, *kept), [*warnings, *kept_warnings]


def _keep_removed_resources(
    old_by_urn: Mapping[str, StateResource], new_urns: set[str]
) -> tuple[list[StateResource], list[str]]:
    """Return the resources that still bill after their removal from the program, each with a warning."""
    kept, warnings = [], []
    for urn, resource in old_by_urn.items():
        text = describe_kept_resource(resource) if urn not in new_urns else ""
        if text:
            kept.append(resource)
            warnings.append(text)
    return kept, warnings
