"""The dictionary of the kernel log: what each kind of line means, for which part, and the steps after it.

`data/kernel_log.yaml` has the shipped rules; a site adds its own, which are tried first (`kernel_rule_file.py`).
"""

from __future__ import annotations

import re
from datetime import date
from functools import cache
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from gpufleet.boundary import read_packaged_yaml, validate_with_pydantic
from gpufleet.burnin.pattern_limit import find_pattern_fault
from gpufleet.nodes.part import REPAIR_ACTIONS

XID_RULE = "xid"
"""The outcome of the one rule for XIDs: `data/xid.csv` has the meaning of each code."""
PARTS = (
    "gpu", "drive", "memory", "cpu", "nic", "pcie", "file_system", "board", "power", "driver", "nvswitch",
)  # fmt: skip
# Which groups the agent drops first where a record holds no more: details and corrected errors.
RANKS = {"fatal": 0, XID_RULE: 0, "review": 1, "application": 1, "record": 2}

Text = Annotated[str, Field(min_length=1, max_length=200)]


class Storm(BaseModel):
    """The rate from which recorded events need a look: this many within these seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    count: Annotated[int, Field(ge=2, le=100_000)]
    seconds: Annotated[float, Field(gt=0, le=31_536_000)]


class KernelRule(BaseModel):
    """One kind of line of the kernel log."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{1,39}$")]
    words: Annotated[
        tuple[Annotated[str, Field(min_length=3, max_length=80)], ...], Field(min_length=1, max_length=12)
    ]
    pattern: Text
    part: Literal[PARTS]  # type: ignore[valid-type]
    outcome: Literal["fatal", "review", "application", "record", "xid"]
    steps: Annotated[tuple[str, ...], Field(min_length=1, max_length=6)]
    meaning: Text
    source: Text
    date: date
    storm: Storm | None = None
    # The outcome of events that the kernel finds when it starts: they are from before the restart.
    at_boot: Literal["review", "record"] | None = None
    example: Annotated[str, Field(max_length=240)] = ""

    @field_validator("pattern")
    @classmethod
    def _check_pattern(cls, value: str) -> str:
        if fault := find_pattern_fault(value):
            raise ValueError(fault)
        return value

    @field_validator("steps")
    @classmethod
    def _check_steps(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        unknown = [step for step in value if step not in REPAIR_ACTIONS]
        if unknown:
            raise ValueError(f"{unknown[0]!r} is not a step; use {', '.join(REPAIR_ACTIONS)}")
        return value

    @model_validator(mode="after")
    def _check_example(self) -> Self:
        if self.example and not (
            any(word in self.example for word in self.words) and self.regex.search(self.example)
        ):
            raise ValueError("the example must contain one of the words and match the pattern")
        return self

    @property
    def regex(self) -> re.Pattern[str]:
        """Return the compiled pattern."""
        return compile_pattern(self.pattern)


class KernelRules(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rules: tuple[KernelRule, ...]


@cache
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Return a compiled pattern, compiled once."""
    return re.compile(pattern)


@cache
def load_kernel_rules() -> tuple[KernelRule, ...]:
    """Return the shipped rules in the order in which they are tried."""
    document = read_packaged_yaml("gpufleet.burnin", "data/kernel_log.yaml")
    return validate_with_pydantic(KernelRules, document, "gpufleet/burnin/data/kernel_log.yaml").rules


def combine_rules(site_rules: tuple[KernelRule, ...]) -> tuple[KernelRule, ...]:
    """Return all rules in the order in which they are tried: the site's first; a site's id replaces a shipped one."""
    replaced = {rule.id for rule in site_rules}
    return (*site_rules, *(rule for rule in load_kernel_rules() if rule.id not in replaced))


def list_agent_rules(site_rules: tuple[KernelRule, ...] = ()) -> tuple[tuple[Any, ...], ...]:
    """Return what the agent needs of each rule, as plain values: id, words, pattern and rank."""
    return tuple(
        (rule.id, rule.words, rule.pattern, RANKS[rule.outcome]) for rule in combine_rules(site_rules)
    )
