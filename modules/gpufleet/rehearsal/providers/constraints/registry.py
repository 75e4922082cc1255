"""The constraints of the simulated clouds: small functions, each with the vendor's document that states it.

A constraint sees the inputs of one resource, without secrets, and yields (path, reason); a reason starts with the error
code of the vendor's API where its document names one. Constraints come from vendors' documents only, never from the
rules, the facts or the components of gpufleet: they are a second witness. ``offerings`` alone reads the catalogue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from gpufleet.rehearsal.providers.property_values import UNKNOWN

Inputs = dict[str, Any]
Problem = tuple[str, str]
Check = Callable[[Inputs], Iterator[Problem]]

CHECKS: dict[str, list[Check]] = {}
SOURCES: dict[str, str] = {}  # name of the constraint -> its source


def constrains(*tokens: str, source: str) -> Callable[[Check], Check]:
    """Register a constraint for resource types, with the document that states it."""

    def register(check: Check) -> Check:
        for token in tokens:
            CHECKS.setdefault(token, []).append(check)
        SOURCES[check.__name__] = source
        return check

    return register


def find_refusals(token: str, inputs: Inputs) -> Iterator[Problem]:
    """Yield what the cloud's API would refuse about these inputs."""
    for check in CHECKS.get(token, ()):
        yield from check(inputs)


def as_number(value: Any) -> float | None:
    """Return a number that the program wrote as a number or as text; None if it is unknown or neither."""
    if isinstance(value, bool) or value is None or value == UNKNOWN:
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def as_boolean(value: Any) -> bool:
    return value is True or value == "true"


def as_object(value: Any) -> Inputs:
    """Return the value if it is an object, else an empty one: an unknown value has no properties yet."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def is_known(value: Any) -> bool:
    return value is not None and value != UNKNOWN
