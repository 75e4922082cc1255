"""What a check's folder says of it: `check.yaml`, typed. A folder below `checks/` is a check; no other list names it.

Next to `check.yaml` are `measure.py`, which runs on the node in the agent, and `read.py`, which reads the record. A
check that others record (the configuration, crashes) has no `measure.py`; one that is only recorded has no `read.py`.
"""

from __future__ import annotations

from datetime import date
from functools import cache
from importlib import resources
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from gpufleet.boundary import read_packaged_yaml, validate_with_pydantic

KINDS = ("compute_blade", "pi_gpu_bench", "gpu_server", "workstation", "cloud_vm")
ANY, REHEARSAL = "any", "rehearsal"
PROFILES = ("quick", "standard", "soak")
# A check can be required on a node that has, or should have, such hardware. `declared`: the registry declares GPUs, a
# drive or a fabric (gpufleet_burn_in_expected). A PCI vendor id: GPUs of this vendor are declared, or the agent saw one
# on the PCI bus.
HARDWARE = {
    "declared": "declared hardware",
    "10de": "NVIDIA GPUs",
    "1002": "AMD GPUs",
    # Older agents read the kernel log only where there is a GPU; their records are judged without it.
    "kernel_log": "a record of agent 1.1 or later",
}

Name = Annotated[str, Field(min_length=1)]
Names = Annotated[
    tuple[Name, ...], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)
]
Number = int | float


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)  # many commands read no check


class Sourced(_Part):
    """What a number or a step rests on."""

    source: Name
    date: date


class ThresholdEntry(Sourced):
    """A bound on one metric or several; without a bound a metric is recorded and not judged."""

    metric: Names
    unit: Name
    applies_to: Names = (ANY,)
    floor: Number | None = None
    ceiling: Number | None = None
    below: Number | None = None
    on_miss: Literal["fail", "warn"] | None = None
    absent: Literal["not_run", "skip"] | None = None
    peak: Number | str | None = None
    basis: Literal["policy", "vendor", "measured"] = "policy"
    meaning: str = ""
    # A rate of cards: each kind of card has it too, under its own name; and where the catalogue has its peak (an
    # all-reduce that the switch adds up may show 1.6 times the bandwidth of one direction).
    is_per_card: bool = False
    card_peak: str = ""

    @model_validator(mode="after")
    def _check_bound(self) -> Self:
        if sum(bound is not None for bound in (self.floor, self.ceiling, self.below)) > 1:
            raise ValueError("more than one of floor, ceiling and below")
        return self

    def find_bound(self) -> tuple[str, float | None]:
        """Return the kind of bound and its value."""
        for name in ("floor", "ceiling", "below"):
            if (value := getattr(self, name)) is not None:
                return name, float(value)
        return "unjudged", None


class ComparedEntry(Sourced):
    """A metric that equal nodes should reach alike; ``shown`` is the value that a report displays.

    The spread of a group counts with at least the larger of both floors: a share of the median, and a number.
    """

    metric: Name
    label: Name
    unit: Name
    bad: Literal["low", "high"]
    relative_floor: float = 0.0
    absolute_floor: float = 0.0


class StepsEntry(Sourced):
    """The steps after a failure of one metric, mildest first; ``*`` for all that no other row names."""

    metric: Name
    steps: tuple[Name, ...]
    meaning: Name
    covers: Names = ()  # metrics that miss their bound only because this one does: one fault, told once


class Run(_Part):
    """How the agent runs a check: the seconds after which it is stopped, and whether it loads the node."""

    seconds: float
    is_load: bool


class ParameterEntry(_Part):
    """A parameter of the agent that belongs to this check: its type and range, its value by profile."""

    type: Literal["seconds", "mib", "count", "port", "integer", "number", "text", "flag"]
    low: Number | None = None
    high: Number | None = None
    words: tuple[Name, ...] = ()
    quick: Number | None = None
    standard: Number | None = None
    soak: Number | None = None
    rehearsal: Number | None = None


class CheckDefinition(_Part):
    """A whole `check.yaml`. ``alternative`` names a check of which one or the other must have run."""

    measures: Name
    miss: Name
    next: Annotated[tuple[Name, ...], Field(min_length=1)]
    order: int
    required: tuple[Literal[ANY, *KINDS, *HARDWARE], ...] = ()  # type: ignore[valid-type]
    alternative: Name | None = None
    run: Run | None = None
    parameters: dict[str, ParameterEntry] = Field(default_factory=dict)
    thresholds: tuple[ThresholdEntry, ...] = ()
    compared: tuple[ComparedEntry, ...] = ()
    repair: tuple[StepsEntry, ...] = ()


@cache
def load_checks() -> dict[str, CheckDefinition]:
    """Return every check by name, in the order in which the agent runs them."""
    folder = resources.files("gpufleet.burnin") / "checks"
    names = sorted(item.name for item in folder.iterdir() if (item / "check.yaml").is_file())
    checks = {
        name: parse_check(name, read_packaged_yaml("gpufleet.burnin", f"checks/{name}/check.yaml"))
        for name in names
    }
    return dict(sorted(checks.items(), key=lambda item: item[1].order))


def parse_check(name: str, document: Any) -> CheckDefinition:
    """Return a check's definition; an InputError names the file and the key that is wrong."""
    return validate_with_pydantic(CheckDefinition, document, f"gpufleet/burnin/checks/{name}/check.yaml")


def list_agent_checks() -> dict[str, dict[str, Any]]:
    """Return what the agent needs of each check that it runs, as plain values."""
    return {
        name: {
            **check.run.model_dump(),
            "parameters": {
                key: entry.model_dump(exclude_defaults=True) for key, entry in check.parameters.items()
            },
        }
        for name, check in load_checks().items()
        if check.run
    }
