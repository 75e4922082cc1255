"""The rules of the watch (`data/rules.yaml`), typed.

| key of a rule | meaning |
|---|---|
| `exporter`, `metric` | which exporter must say it (`any`: each), and the metric; `up` is 1 while an exporter answers |
| `where` | regular expressions that labels must match as a whole |
| `divided_by` | the value is that of `metric` divided by this metric with the same labels |
| `above`, `below` | the value that fires |
| `gain`, `within_s` | a counter that grows by more than this within so many seconds |
| `gone` | a series that was there is missing while its exporter answers |
| `by` | the labels that tell series apart; left out: all. Labels of pods and drivers change while the part stays |
| `event` | `xid`: the value is the code of the GPU's last XID, and a new value is an event for burn-in's dictionary |
| `for_s` | how long it must be seen without a pause |
| `part`, `position`, `fault` | the part, the label that names it, and the name of the fault in the repair ledger |
| `action` | `act`, `record` (history only) or `off` |
| `measure` | what `act` does: `hold`, or `quarantine` |
| `meaning`, `source`, `date` | the text of a finding; where the rule comes from |
| `example` | values that fire and values that do not |
"""

from __future__ import annotations

import re
from datetime import date
from functools import cache
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from gpufleet.boundary import make_printable, read_packaged_yaml, validate_with_pydantic
from gpufleet.burnin.kernel_event import normalize_pci
from gpufleet.burnin.kernel_rule import PARTS, compile_pattern
from gpufleet.burnin.pattern_limit import find_pattern_fault

FILE = "data/rules.yaml"
SILENCE = "up"
"""The metric that the watch itself makes: 1 for an exporter that answered, 0 for one that did not."""
RULE_LABEL = "gpufleet_rule"
"""The label by which an alert of Prometheus names the rule."""
ANY = "any"
Action = Literal["act", "record", "off"]
Measure = Literal["hold", "quarantine"]
Text = Annotated[str, Field(min_length=1, max_length=240)]
LabelName = Annotated[str, Field(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]{0,63}$")]
MetricName = Annotated[str, Field(pattern=r"^[a-zA-Z_:][a-zA-Z0-9_:]{0,199}$")]
DAY = 86_400.0


class RuleExample(BaseModel):
    """Values of one series at equal distances: ``0x2 1`` is 0, 0, 0, 1, and ``_`` is a missing sample."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    series: Text
    fires: Text
    rests: Text
    divisor: str = ""
    step_s: Annotated[int, Field(ge=1, le=3600)] = 60


class WatchRule(BaseModel):
    """One rule about what an exporter says."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rule: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{2,47}$")]
    exporter: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,31}$")]
    metric: MetricName
    where: dict[LabelName, Text] = Field(default_factory=dict)
    divided_by: MetricName | None = None
    above: float | None = None
    below: float | None = None
    gain: Annotated[float, Field(ge=0)] | None = None
    within_s: Annotated[float, Field(gt=0, le=7 * DAY)] | None = None
    gone: bool = False
    by: tuple[LabelName, ...] = ()
    event: Literal["xid"] | None = None
    for_s: Annotated[float, Field(ge=0, le=DAY)] = 0.0
    part: Literal[PARTS]  # type: ignore[valid-type]
    position: LabelName | None = None
    fault: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_.]{2,63}$")]
    action: Action
    measure: Measure = "hold"
    meaning: Text
    source: Text
    date: date
    example: RuleExample

    @model_validator(mode="after")
    def _check_shape(self) -> Self:
        kinds = [
            self.above is not None,
            self.below is not None,
            self.gain is not None,
            self.gone,
            bool(self.event),
        ]
        if sum(kinds) != 1:
            raise ValueError("needs one of above, below, gain, gone and event")
        if (self.gain is None) != (self.within_s is None):
            raise ValueError("gain and within_s need each other")
        if self.for_s and (self.gain is not None or self.event):
            raise ValueError("for_s cannot be combined with gain or event")
        if (self.metric == SILENCE) != (self.exporter == ANY):
            raise ValueError(f"the metric {SILENCE} and the exporter {ANY} need each other")
        for pattern in self.where.values():
            if fault := find_pattern_fault(pattern):
                raise ValueError(fault)
        return self

    def matches(self, labels: dict[str, str]) -> bool:
        """Return True if the labels of a series are those that the rule is about."""
        return all(
            compile_pattern(pattern).fullmatch(labels.get(name, "")) for name, pattern in self.where.items()
        )

    @property
    def threshold(self) -> float | None:
        """Return the number that a value is compared with, if there is one."""
        return next((each for each in (self.above, self.below, self.gain) if each is not None), None)

    @property
    def condition(self) -> str:
        """Return the condition as text: ``above 90 for 120 s``."""
        if self.event:
            return "a new value"
        if self.gone:
            text = "gone"
        elif self.gain is not None:
            return f"gained more than {self.gain:g} within {self.within_s:g} s"
        else:
            text = f"above {self.above:g}" if self.above is not None else f"below {self.below:g}"
        return f"{text} for {self.for_s:g} s" if self.for_s else text


class _RuleFile(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    rules: tuple[WatchRule, ...]


@cache
def load_watch_rules() -> tuple[WatchRule, ...]:
    """Return the shipped rules, in the order of the file."""
    document = read_packaged_yaml("gpufleet.operations.watch", FILE)
    return validate_with_pydantic(_RuleFile, document, f"gpufleet/operations/watch/{FILE}").rules


def expand_values(text: str) -> list[float | None]:
    """Return the values of an example: ``1x2 _`` is 1, 1, 1, None, as promtool reads it."""
    values: list[float | None] = []
    for word in text.split():
        value, _, more = word.partition("x")
        number = None if value == "_" else float(value)
        # promtool: `_x2` is two missing samples, `1x2` is 1 and two more of it
        values += [number] * (int(more or 1) if number is None else int(more or 0) + 1)
    return values


def normalize_position(part: str, text: str) -> str:
    """Return where a part is, as records of burn-in have it: a PCI address as in sysfs, a drive's name."""
    if part == "drive":
        name = text.rpartition("/")[2]
        return f"{name}n1" if re.fullmatch(r"nvme\d{1,4}", name) else make_printable(name, 40)
    return normalize_pci(text) or make_printable(text, 40)
