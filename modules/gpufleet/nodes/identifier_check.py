"""Which observed identifiers may enter the registry: those that match the patterns of ``boundary``. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpufleet.boundary import is_identifier, make_printable
from gpufleet.nodes.model import NodeObservation

IDENTIFIER_KINDS = {
    "serial": "serial",
    "mac": "serial",
    "instance_id": "instance id",
    "address": "address",
    "private_address": "address",
    "public_address": "address",
    "machine": "model",
    "template": "name",
    "account": "name",
    "region": "name",
    "zone": "name",
    "cloud": "name",
    "pool": "name",
    "stack": "name",
    "kind": "name",
    "rack": "name",
    "slot": "name",
}
"""The identifiers among the keys of an observation, with their pattern."""


def remove_malformed_identifiers(observation: NodeObservation) -> tuple[NodeObservation | None, list[str]]:
    """Return an observation without what is not well-formed, and a line for each thing left out.

    None where its name or instance id is not well-formed: nothing says then which node is meant.
    """
    identity, problems = observation.identity, []
    for kind, value in (("name", observation.name), ("instance id", identity.instance_id)):
        if value is not None and not is_identifier(value, kind):
            return None, [_problem_line(observation, kind, value)]
    for field in ("rack", "slot", "account"):
        value = getattr(identity, field)
        if value not in (None, "") and not is_identifier(value, "name"):
            return None, [_problem_line(observation, field, value)]
    serial = (
        identity.serial.strip().strip("\x00").strip() if isinstance(identity.serial, str) else identity.serial
    )
    if serial and not is_identifier(serial, "serial"):
        problems.append(_problem_line(observation, "serial", serial))
        identity = replace(identity, serial=None)
    declared = _well_formed(observation, observation.declared, problems)
    observed = _well_formed(observation, observation.observed, problems)
    if not problems:
        return observation, []
    return replace(observation, identity=identity, declared=declared, observed=observed), problems


def _well_formed(observation: NodeObservation, values: dict[str, Any], problems: list[str]) -> dict[str, Any]:
    malformed = {
        key
        for key, kind in IDENTIFIER_KINDS.items()
        if values.get(key) not in (None, "") and not is_identifier(_text(values[key]), kind)
    }
    problems += [_problem_line(observation, key, values[key]) for key in sorted(malformed)]
    return {key: value for key, value in values.items() if key not in malformed} if malformed else values


def _text(value: Any) -> Any:
    return str(value) if type(value) is int else value


def _problem_line(observation: NodeObservation, kind: str, value: Any) -> str:
    name, text = make_printable(observation.name, 80), make_printable(repr(value), 80)
    return f"{name}: {observation.source} gives a {kind} that is not well-formed: {text}"
