"""The rules over time and by register (`data/event_rules.yaml`), typed.

| key of a rule | meaning |
|---|---|
| `events`, `except` | codes of events, with `*`: which it speaks of |
| `bits` | bits of XID 74's registers by register, counted from 1: only an event with one of these |
| `cause` | only an event whose text names the XID that caused it, or that follows another XID of the GPU |
| `if_outcome` | only an event of this outcome |
| `same` | the events must be of the same part: `gpu`, `unit` (GPC and TPC), `link`, `node` |
| `different` | or of several: `gpu`, `unit` |
| `burst_s` | events with no longer gap than this are one |
| `sticky`, `sticky_s` | codes of which one may last long: within these seconds they are one |
| `within_h`, `count` | so many in so many hours; left out: one is enough |
| `unless_shared` | a burst that other parts have too does not count: the workload caused it |
| `unless_other` | only if no other bit is set and no other XID of the GPU is active |
| `outcome`, `once` | what the events then are; and what they are before `count` is reached, or next to others |
| `steps`, `meaning`, `source`, `date` | the steps of repair; the text of the reason; where the rule comes from |
"""

from __future__ import annotations

from datetime import date
from functools import cache
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from gpufleet.boundary import read_packaged_yaml, validate_with_pydantic

FILE = "data/event_rules.yaml"
Name = Annotated[str, Field(min_length=1)]
Outcome = Literal["fatal", "review", "application", "record"]
REGISTERS, REGISTER_BITS = 7, 32


class _Sourced(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True, populate_by_name=True)

    rule: Annotated[str, Field(pattern=r"^[a-z0-9_]{3,48}$")]
    meaning: Name
    source: Name
    date: date


class EventRule(_Sourced):
    """One rule about events of the kernel log."""

    events: tuple[Name, ...]
    excepted: tuple[Name, ...] = Field(default=(), alias="except")
    bits: dict[int, tuple[int, ...]] = Field(default_factory=dict)
    cause: bool = False
    if_outcome: Outcome | None = None
    same: Literal["gpu", "unit", "link", "node"] | None = None
    different: Literal["gpu", "unit"] | None = None
    burst_s: float = 0.0
    sticky: tuple[Name, ...] = ()
    sticky_s: float = 0.0
    within_h: float = 24.0
    count: Annotated[int, Field(ge=1, le=100)] = 1
    unless_shared: bool = False
    unless_other: bool = False
    once: Outcome | None = None
    outcome: Outcome
    steps: tuple[Name, ...] = ()

    @model_validator(mode="after")
    def _check_shape(self) -> Self:
        if self.same and self.different:
            raise ValueError("same and different cannot be combined")
        if self.count > 1 and not (self.same or self.different):
            raise ValueError("a count needs same or different")
        if (self.outcome == "fatal") != bool(self.steps):
            raise ValueError("steps are required for a fatal outcome, and only for one")
        places = [(register, bit) for register, bits in self.bits.items() for bit in bits]
        if any(not (0 < register <= REGISTERS and 0 <= bit < REGISTER_BITS) for register, bit in places):
            raise ValueError("a register is 1 to 7, a bit 0 to 31")
        return self


class RepairsRule(_Sourced):
    """How many repairs of a node in how many hours make it the vendor's."""

    within_h: float
    count: Annotated[int, Field(ge=1, le=100)]
    step: Name


class _RuleFile(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    rules: tuple[EventRule, ...]
    repairs: RepairsRule

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        names = [rule.rule for rule in self.rules]
        if len({*names, self.repairs.rule}) != len(names) + 1:
            raise ValueError("two rules have the same name")
        bits = [(code, *place) for rule in self.rules for code in rule.events for place in _list_bits(rule)]
        if len(set(bits)) != len(bits):
            raise ValueError("two rules name the same bit")
        return self


def _list_bits(rule: EventRule) -> list[tuple[int, int]]:
    return [(register, bit) for register, bits in rule.bits.items() for bit in bits]


@cache
def _load_file() -> _RuleFile:
    return validate_with_pydantic(
        _RuleFile, read_packaged_yaml("gpufleet.burnin", FILE), f"gpufleet/burnin/{FILE}"
    )


def load_event_rules() -> tuple[EventRule, ...]:
    """Return the rules about events."""
    return _load_file().rules


def load_repairs_rule() -> RepairsRule:
    """Return the rule about repairs of a node."""
    return _load_file().repairs


def list_rule_names() -> tuple[str, ...]:
    """Return the names of all rules, in the order of the file."""
    return (*(rule.rule for rule in load_event_rules()), load_repairs_rule().rule)


@cache
def load_bit_rules() -> dict[tuple[int, int], EventRule]:
    """Return the rule of each bit of XID 74's registers, by register and bit."""
    return {place: rule for rule in load_event_rules() for place in _list_bits(rule)}
