"""Constraints that are rows of ``data/constraints.csv``: each row refuses a value where all its conditions hold.

A condition is ``PATH VERB ARGUMENT``, and `` & `` joins several. A path such as ``disks[].type`` means each entry of a
list, the same one in the whole row; ``.`` is the path of the row; ``zone|location`` is the first of these that is set.
``profile.`` begins what a machine has itself and a scale set in its profile. A reason shows a value as ``{PATH}``,
quoted as ``{PATH!r}``, and its length as ``{#PATH}``. Verbs:

- ``given``, ``missing``: the property is set or not; ``on``, ``off``: it is also neither false nor empty, or not so
- ``is``, ``not``: the words of which it is or is not one; ``-`` means not set
- ``like``, ``unlike``: a regular expression for the whole of a known value
- ``within``, ``outside``: the bounds of a known number, such as ``1..64`` or ``1..``
- ``longer``: the most entries that a list may have

A value that is not known yet is set, and nothing else holds of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any

from gpufleet.boundary import read_table
from gpufleet.rehearsal.providers.constraints.azure_machine import SCALE_SET
from gpufleet.rehearsal.providers.constraints.registry import (
    Check,
    Inputs,
    Problem,
    as_list,
    as_number,
    as_object,
    constrains,
    is_known,
)
from gpufleet.rehearsal.providers.property_values import UNKNOWN

_LISTED = re.compile(r"([\w.]+)\[\]")
_SHOWN = re.compile(r"\{(#?)([^{}!]+)(!r)?\}")
_VERBS: dict[str, Callable[[Any, str], bool]] = {
    "given": lambda value, _: value is not None,
    "missing": lambda value, _: value is None,
    "on": lambda value, _: bool(value),
    "off": lambda value, _: not value,
    "is": lambda value, choices: _write(value) in choices.split("|"),
    "not": lambda value, choices: value != UNKNOWN and _write(value) not in choices.split("|"),
    "like": lambda value, pattern: is_known(value) and bool(re.fullmatch(pattern, _write(value))),
    "unlike": lambda value, pattern: is_known(value) and not re.fullmatch(pattern, _write(value)),
    "within": lambda value, bounds: _is_number(value) and _is_within(value, bounds),
    "outside": lambda value, bounds: _is_number(value) and not _is_within(value, bounds),
    "longer": lambda value, limit: isinstance(value, list) and len(value) > int(limit),
}


@dataclass(frozen=True)
class Row:
    """A row of the table: when it refuses what is at ``path``, and the document that says so."""

    constraint: str
    types: tuple[str, ...]
    path: str
    when: str
    reason: str
    source: str

    def for_profile(self, profile: str) -> Row:
        """Return the row with its paths written out; ``profile`` is where the type has its profile."""
        path = re.sub(r"\bprofile\.", profile, self.path)
        when = re.sub(r"\bprofile\.", profile, re.sub(r"(^|& )\. ", rf"\1{path} ", self.when))
        reason = re.sub(r"\{(#?)\.(!r)?\}", rf"{{\1{path}\2}}", self.reason)
        return replace(self, path=path, when=when, reason=re.sub(r"\bprofile\.", profile, reason))

    def find_problems(self, inputs: Inputs) -> Iterator[Problem]:
        """Yield where the row refuses these inputs, and why."""
        listed = _LISTED.search(self.when)
        indexes = range(len(as_list(_look_up(inputs, listed[1])))) if listed else (0,)
        for index in indexes:
            when, path, reason = (
                text.replace("[]", f"[{index}]") for text in (self.when, self.path, self.reason)
            )
            if all(_is_met(condition, inputs) for condition in when.split(" & ")):
                yield path, _SHOWN.sub(partial(_show, inputs), reason)


def register_table() -> None:
    """Register the constraints of the table, each for its types."""
    rows = read_table(Row, "gpufleet.rehearsal.providers", "data/constraints.csv")
    for (name, types), group in groupby(rows, lambda row: (row.constraint, row.types)):
        known = list(group)
        for token in types:
            place = "virtualMachineProfile." if token == SCALE_SET else ""
            constrains(token, source=known[0].source)(
                _make_check(name, [row.for_profile(place) for row in known])
            )


def _make_check(name: str, rows: list[Row]) -> Check:
    def check(inputs: Inputs) -> Iterator[Problem]:
        for row in rows:
            yield from row.find_problems(inputs)

    check.__name__ = name
    return check


def _is_met(condition: str, inputs: Inputs) -> bool:
    path, verb, *argument = condition.split(" ", 2)
    return _VERBS[verb](_look_up(inputs, path), *argument or [""])


def _look_up(inputs: Inputs, paths: str) -> Any:
    """Return the value at the first of these paths that has one."""
    for path in paths.split("|"):
        value: Any = inputs
        for step in re.findall(r"[^.\[\]]+", path):
            if value == UNKNOWN:
                break
            if isinstance(value, list):
                value = {str(index): entry for index, entry in enumerate(value)}
            value = as_object(value).get(step)
        if value is not None:
            return value
    return None


def _write(value: Any) -> str:
    """Return a value as the table has it."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, (int, float)) else str(value)


def _show(inputs: Inputs, match: re.Match[str]) -> str:
    value = _look_up(inputs, match[2])
    if match[1]:
        return str(len(value))
    number = as_number(value)
    return repr(value) if match[3] else _write(value if number is None else number)


def _is_number(value: Any) -> bool:
    return as_number(value) is not None


def _is_within(value: Any, bounds: str) -> bool:
    low, _, high = bounds.partition("..")
    return float(low or "-inf") <= (as_number(value) or 0) <= float(high or "inf")
