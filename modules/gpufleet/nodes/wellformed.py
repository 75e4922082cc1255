"""Which observed identifiers may enter the registry: those that match the patterns of ``boundary``. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpufleet.boundary import is_identifier, printable
from gpufleet.nodes.model import Observation

IDENTIFIER_KINDS = {
    "serial": "serial",
    "mac": "serial",
    "instance_id": "instance id",
    "address": "address",
    "private_address": "address",
    "public_address": "address",
    "machine": "model",
    "template": "name",
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


def check_observation(seen: Observation) -> tuple[Observation | None, list[str]]:
    """Return an observation without what is not well-formed, and a line for each thing left out.

    None where its name or instance id is not well-formed: nothing says then which node is meant.
    """
    who, problems = seen.identity, []
    for what, value in (("name", seen.name), ("instance id", who.instance_id)):
        if value is not None and not is_identifier(value, what):
            return None, [_line(seen, what, value)]
    for field in ("rack", "slot"):
        value = getattr(who, field)
        if value is not None and not is_identifier(value, "name"):
            return None, [_line(seen, field, value)]
    serial = who.serial.strip().strip("\x00").strip() if isinstance(who.serial, str) else who.serial
    if serial and not is_identifier(serial, "serial"):
        problems.append(_line(seen, "serial", serial))
        who = replace(who, serial=None)
    declared = _well_formed(seen, seen.declared, problems)
    observed = _well_formed(seen, seen.observed, problems)
    if not problems:
        return seen, []
    return replace(seen, identity=who, declared=declared, observed=observed), problems


def _well_formed(seen: Observation, values: dict[str, Any], problems: list[str]) -> dict[str, Any]:
    bad = {
        key
        for key, kind in IDENTIFIER_KINDS.items()
        if values.get(key) not in (None, "") and not is_identifier(_text(values[key]), kind)
    }
    problems += [_line(seen, key, values[key]) for key in sorted(bad)]
    return {key: value for key, value in values.items() if key not in bad} if bad else values


def _text(value: Any) -> Any:
    return str(value) if type(value) is int else value


def _line(seen: Observation, what: str, value: Any) -> str:
    shown = printable(repr(value), 80)
    return f"{printable(seen.name, 80)}: {seen.source} gives a {what} that is not well-formed: {shown}"
