"""Read the file of rules over time that a site only records (`burn-in-rules.yaml`)."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from gpufleet.boundary import decode_yaml, make_printable, validate_with_pydantic
from gpufleet.burnin.event_rule import list_rule_names
from gpufleet.burnin.threshold_lint import is_iso_date
from gpufleet.errors import InputError
from gpufleet.fleet.frozen_model import DateText

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]


class RuleSwitch(BaseModel):
    """One entry of the file, as a person writes it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    rule: Text
    reason: Annotated[str, StringConstraints(strip_whitespace=True, min_length=10, max_length=500)]
    by: Text
    date: DateText


class RuleSwitchFile(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    record_only: Annotated[list[RuleSwitch], Field(max_length=100)]


def parse_rule_switches(text: str, where: str) -> frozenset[str]:
    """Return the rules that a site only records; anything wrong is one InputError with its place."""
    document = decode_yaml(text, where)
    if not isinstance(document, dict):
        raise InputError(
            "must be a mapping with the key record_only", where=where, remedy="see docs/burn-in.md"
        )
    entries = validate_with_pydantic(RuleSwitchFile, document, where).record_only
    names = list_rule_names()
    for number, entry in enumerate(entries):
        key = f"record_only.{number}"
        if entry.rule not in names:
            similar = get_close_matches(entry.rule, names, n=1)
            remedy = f"did you mean {similar[0]}?" if similar else f"use one of {', '.join(names)}"
            shown = make_printable(entry.rule, 60)
            raise InputError(f"{shown!r} is not a rule", where=where, key=f"{key}.rule", remedy=remedy)
        if not is_iso_date(entry.date):
            raise InputError(
                f"{make_printable(entry.date, 40)!r} is not a past date (YYYY-MM-DD)",
                where=where,
                key=f"{key}.date",
            )
    return frozenset(entry.rule for entry in entries)
