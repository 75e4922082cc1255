"""Find nodes that are slower or hotter than their equals, by median and MAD: robust where some nodes are bad.

The score is the modified z-score of Iglewicz and Hoaglin (How to Detect and Handle Outliers, ASQC 1993; also NIST's
e-Handbook of Statistical Methods, 1.3.5.17): the distance to the median over 1.4826 times the median absolute
deviation, which estimates the standard deviation of normal noise. Three things keep noise from being named:

- the spread has a floor, because equal values have a MAD of almost zero;
- a group needs a minimum number of members, and small groups of a kind share their spread;
- the cutoff is 3.5 as in the book, and higher for large groups: of large healthy groups with normal noise, one in a
  hundred has a member over it.

An outlier is evidence, never a verdict: `gpufleet burnin compare` warns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist, median
from typing import Literal

from gpufleet.burnin.check_definition import load_checks
from gpufleet.burnin.evidence import CheckReadings, mapping_or_empty
from gpufleet.burnin.readings import extract_check_metrics

MAD_TO_SIGMA = 1.4826
MIN_CUTOFF = 3.5
FALSE_ALARMS_PER_GROUP = 0.01
MIN_GROUP = 5
SHOWN = "shown"
MACHINE = "machine"

Direction = Literal["low", "high"]


@dataclass(frozen=True)
class Outlier:
    """A member that is worse than its group; ``score`` is in standard deviations, always positive."""

    name: str
    value: float
    median: float
    score: float
    cutoff: float
    group_size: int


@dataclass(frozen=True)
class ComparedMetric:
    """A metric that nodes are compared by; ``bad`` is the direction that is worse."""

    check: str
    metric: str
    label: str
    unit: str
    bad: Direction
    relative_floor: float
    absolute_floor: float
    source: str
    date: str

    def read(self, readings: CheckReadings) -> float | None:
        """Return the metric's value, None if the record does not have it."""
        if self.metric != SHOWN:
            return readings.metrics.get(self.metric)
        return readings.display_value if isinstance(readings.display_value, float) else None


@dataclass(frozen=True)
class NodeMeasurements:
    """What one node measured, and the groups that it belongs to by their kind (machine, slot, zone)."""

    name: str
    values: Mapping[ComparedMetric, float]
    groups: Mapping[str, str]


@dataclass(frozen=True)
class Straggler:
    """A node that is an outlier in one of its groups."""

    metric: ComparedMetric
    group_kind: str
    group: str
    outlier: Outlier


@cache
def load_compared_metrics() -> tuple[ComparedMetric, ...]:
    """Return the metrics that nodes are compared by."""
    return tuple(
        ComparedMetric(name, **{**dict(entry), "date": entry.date.isoformat()})
        for name, check in load_checks().items()
        for entry in check.compared
    )


def compute_cutoff(group_size: int) -> float:
    """Return the score above which a member of a group of this size is an outlier."""
    return max(MIN_CUTOFF, NormalDist().inv_cdf(1 - FALSE_ALARMS_PER_GROUP / group_size))


def find_outliers(
    values: Mapping[str, float],
    *,
    bad: Direction,
    relative_floor: float,
    absolute_floor: float = 0.0,
    min_group: int = MIN_GROUP,
) -> list[Outlier]:
    """Return the members that are worse than the rest, worst first; none in a group that is too small."""
    if len(values) < max(min_group, 3):
        return []
    middle = median(values.values())
    mad = median(abs(value - middle) for value in values.values())
    spread = max(MAD_TO_SIGMA * mad, relative_floor * abs(middle), absolute_floor)
    if spread <= 0:
        return []
    sign = -1 if bad == "low" else 1
    cutoff = compute_cutoff(len(values))
    outliers = [
        Outlier(name, value, middle, sign * (value - middle) / spread, cutoff, len(values))
        for name, value in values.items()
        if sign * (value - middle) / spread > cutoff
    ]
    return sorted(outliers, key=lambda outlier: (-outlier.score, outlier.name))


def measure_records(records: Iterable[object]) -> dict[ComparedMetric, float]:
    """Return the compared metrics that an attempt's records have."""
    readings = {
        str(record["name"]): extract_check_metrics(str(record["name"]), mapping_or_empty(record.get("raw")))
        for record in map(mapping_or_empty, records)
        if record.get("type") == "check" and record.get("status") == "ran" and "name" in record
    }
    values = (
        (metric, metric.read(readings[metric.check]))
        for metric in load_compared_metrics()
        if metric.check in readings
    )
    return {metric: value for metric, value in values if value is not None}


def find_stragglers(nodes: Iterable[NodeMeasurements], *, min_group: int = MIN_GROUP) -> list[Straggler]:
    """Compare every metric within every group; return the outliers, worst first.

    A group of a few nodes estimates its spread badly: it counts with at least the spread that all groups of its kind
    have around their own medians.
    """
    grouped: dict[tuple[ComparedMetric, str, str], dict[str, float]] = {}
    parents: dict[tuple[ComparedMetric, str, str], tuple[ComparedMetric, str, str]] = {}
    for node in nodes:
        for metric, value in node.values.items():
            for kind, group in node.groups.items():
                key = (metric, kind, group)
                grouped.setdefault(key, {})[node.name] = value
                parents[key] = (metric, kind, node.groups.get(MACHINE, group))
    spreads = compute_pooled_spreads(grouped, parents)
    stragglers = [
        Straggler(metric, kind, group, outlier)
        for (metric, kind, group), values in grouped.items()
        for outlier in find_outliers(
            values,
            bad=metric.bad,
            relative_floor=metric.relative_floor,
            absolute_floor=max(metric.absolute_floor, spreads[parents[metric, kind, group]]),
            min_group=min_group,
        )
    ]
    return sorted(stragglers, key=lambda entry: (-entry.outlier.score, entry.outlier.name, entry.group_kind))


def compute_pooled_spreads(
    grouped: Mapping[tuple[ComparedMetric, str, str], Mapping[str, float]],
    parents: Mapping[tuple[ComparedMetric, str, str], tuple[ComparedMetric, str, str]],
) -> dict[tuple[ComparedMetric, str, str], float]:
    """Return, for each kind of group of a machine type, the spread of all values around their own group's median."""
    residuals: dict[tuple[ComparedMetric, str, str], list[float]] = {}
    for key, values in grouped.items():
        pool = residuals.setdefault(parents[key], [])
        if len(values) > 1:
            middle, lost = median(values.values()), (len(values) / (len(values) - 1)) ** 0.5
            pool += [abs(value - middle) * lost for value in values.values()]
    return {key: MAD_TO_SIGMA * median(pool) if pool else 0.0 for key, pool in residuals.items()}
