"""Validate inputs as a cloud does: names and types, missing inputs, and combinations that its API rejects. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.rehearsal.providers.constraints import Problem, find_refusals
from gpufleet.rehearsal.providers.property_values import PlainValues, unwrap_secrets
from gpufleet.rehearsal.providers.schema import CloudSchema, SimulatedResourceType


def find_input_problems(
    schema: CloudSchema, resource_type: SimulatedResourceType, inputs: PlainValues
) -> Iterator[Problem]:
    """Yield (property, reason) for every problem with these inputs."""
    plain = unwrap_secrets(inputs)
    problems = list(schema.inputs.find_problems(resource_type.token, plain))
    known = {path for path, _ in problems}
    problems += [
        (key, f"missing required property {key!r}")
        for key in resource_type.required
        if key not in inputs and key not in known
    ]
    yield from problems
    if not problems:  # a constraint may rely on names and types
        yield from find_refusals(resource_type.token, plain)
