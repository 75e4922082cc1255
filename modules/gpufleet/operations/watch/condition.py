"""What holds at a node, since when, and what begins or ends to be a finding. Pure.

Times are seconds of the watch's own axis (``session.py``): it never goes back, and a jump of the clock does not count.
Where more than ``max_gap`` lies between two answers of an exporter, nothing is concluded from the time between:
what was seen before counts anew, counters get a new start, and only findings that began stay.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpufleet.boundary import Sample
from gpufleet.operations.watch.rule import ANY, SILENCE, WatchRule, normalize_position

NO_VALUE = 9.2e18
"""DCGM's 64-bit values from 0x7ffffffffffffff0 on mean "not known", "not supported" and so on (dcgm_structs.h)."""
MAX_GAINS = 32
"""Growths that are remembered of one counter; older ones are joined."""
MAX_SERIES = 4096
"""Series that are remembered of one node; a node with more is not one of ours, and its other series are left out."""

Labels = tuple[tuple[str, str], ...]


@dataclass
class SeriesState:
    """What is remembered of one series under one rule.

    ``since`` is when its condition began, ``open`` when it became a finding. Of a counter and of an event, ``value`` is
    the last value; ``gains`` are times and sizes of a counter's growth. ``position`` is where the part was last.
    """

    since: float | None = None
    open: float | None = None
    value: float | None = None
    gains: list[list[float]] = field(default_factory=list)
    position: str = ""

    def as_json(self) -> list[Any]:
        return [self.since, self.open, self.value, self.gains, self.position]


@dataclass
class NodeState:
    """What is remembered of a node: its series by rule and labels, and when it and each exporter were seen last."""

    series: dict[tuple[str, Labels], SeriesState] = field(default_factory=dict)
    answered: dict[str, float] = field(default_factory=dict)
    evaluated: float | None = None
    xids: list[list[Any]] = field(default_factory=list)
    """Events of GPUs for the rules over time: code, position, seconds since the epoch."""

    def as_json(self, at: float) -> dict[str, Any]:
        """Return what is stored; times of the cycle ``at`` are null, so that a quiet node's text stays the same."""
        return {
            "series": [
                [rule, [list(pair) for pair in labels], *state.as_json()]
                for (rule, labels), state in self.series.items()
            ],
            "answered": {name: None if seen == at else seen for name, seen in self.answered.items()},
            "evaluated": None if self.evaluated == at else self.evaluated,
            "xids": self.xids,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any], at: float) -> NodeState:
        """Return what was stored after the cycle ``at``; ValueError, KeyError or TypeError for another form."""
        series = {}
        for rule, labels, since, opened, value, gains, position in document["series"]:
            key = (str(rule), tuple((str(name), str(text)) for name, text in labels))
            series[key] = SeriesState(
                _read_number(since),
                _read_number(opened),
                _read_number(value),
                [[float(time), float(size)] for time, size in gains],
                str(position),
            )
        xids = [[str(code), str(position), float(time)] for code, position, time in document["xids"]]
        answered = {
            str(name): at if seen is None else float(seen) for name, seen in document["answered"].items()
        }
        evaluated = at if document["evaluated"] is None else float(document["evaluated"])
        return cls(series, answered, evaluated, xids)


def _read_number(value: Any) -> float | None:
    return None if value is None else float(value)


@dataclass(frozen=True)
class Change:
    """A condition that became a finding, or whose finding ended; ``held_s``: how long it was seen until then.

    ``position`` is where the part is, as the repair ledger has it; empty for the node itself.
    """

    rule: WatchRule
    exporter: str
    labels: Labels
    value: float
    held_s: float
    position: str = ""
    is_open: bool = True


@dataclass(frozen=True)
class Answer:
    """What an exporter said in a cycle; None as samples: it did not answer."""

    exporter: str
    samples: Sequence[Sample] | None


@dataclass(frozen=True)
class Moment:
    """When a cycle is: on the watch's axis, the longest gap that counts as watched, whether silence counts now."""

    at: float
    max_gap: float
    counts_silence: bool = True


def evaluate_node(
    state: NodeState, answers: Iterable[Answer], rules: Sequence[WatchRule], moment: Moment
) -> list[Change]:
    """Bring a node's state up to a cycle, and return what began and ended in it."""
    changes: list[Change] = []
    was_away = state.evaluated is None or moment.at - state.evaluated > moment.max_gap
    for answer in answers:
        name, last = answer.exporter, state.answered.get(answer.exporter)
        has_answer = answer.samples is not None
        # An exporter that never answered is not silent: it may not be there yet.
        if has_answer or (last is not None and moment.counts_silence):
            up = Sample(SILENCE, (("job", name),), float(has_answer))
            own = [rule for rule in rules if rule.exporter == ANY]
            changes += _evaluate(_Context(state, name, moment, is_gap=was_away), own, [up])
        if answer.samples is None:
            continue
        is_gap = last is None or moment.at - last > moment.max_gap
        own = [rule for rule in rules if rule.exporter == name]
        changes += _evaluate(_Context(state, name, moment, is_gap=is_gap), own, answer.samples)
        state.answered[name] = moment.at
    state.evaluated = moment.at
    return changes


@dataclass(frozen=True)
class _Context:
    """What the rules on one answer share; ``is_gap``: nothing is known of the time before it."""

    state: NodeState
    exporter: str
    moment: Moment
    is_gap: bool


def _evaluate(context: _Context, rules: Iterable[WatchRule], samples: Sequence[Sample]) -> Iterator[Change]:
    by_name: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        by_name[sample.name].append(sample)
    stored = context.state.series
    for rule in rules:
        selected = _select_values(rule, by_name)
        own = (("job", context.exporter),)
        known = {
            labels for name, labels in stored if name == rule.rule and (rule.exporter != ANY or labels == own)
        }
        for labels in sorted(known | selected.keys()):
            is_new = labels not in known
            if is_new and len(stored) >= MAX_SERIES:
                continue
            series = stored.setdefault((rule.rule, labels), SeriesState())
            value, series.position = selected.get(labels, (None, series.position))
            holds = _is_met(context, rule, series, value, is_new=is_new)
            if (change := _follow(context, rule, labels, series, value, holds=holds)) is not None:
                yield change
            if not _is_worth_keeping(context, rule, series, value):
                del stored[rule.rule, labels]


def _is_worth_keeping(context: _Context, rule: WatchRule, series: SeriesState, value: float | None) -> bool:
    """Return whether a later cycle needs to know the series."""
    if series.since is not None:
        return True
    if rule.gone:
        return value is not None or not context.is_gap
    return value is not None and (rule.gain is not None or rule.event is not None)


def _select_values(rule: WatchRule, by_name: Mapping[str, list[Sample]]) -> dict[Labels, tuple[float, str]]:
    """Return value and position of each series of a rule; the worse of two that ``by`` does not tell apart."""
    divisors = {sample.labels: sample.value for sample in by_name.get(rule.divided_by or "", ())}
    selected: dict[Labels, tuple[float, str]] = {}
    for sample in by_name.get(rule.metric, ()):
        named = dict(sample.labels)
        if abs(sample.value) >= NO_VALUE or not rule.matches(named):
            continue
        value = sample.value
        if rule.divided_by is not None:
            if (divisor := divisors.get(sample.labels, 0.0)) <= 0:
                continue
            value /= divisor
        labels = tuple(pair for pair in sample.labels if pair[0] in rule.by) if rule.by else sample.labels
        place = named.get(rule.position or "", "")
        before = selected.get(labels)
        if before is None or (value < before[0] if rule.below is not None else value > before[0]):
            selected[labels] = value, normalize_position(rule.part, place) if place else ""
    return selected


def _is_met(
    context: _Context, rule: WatchRule, series: SeriesState, value: float | None, *, is_new: bool
) -> bool:
    """Return whether a rule's condition holds now, and remember what it needs of the value."""
    if rule.gone:
        # What is missing after a gap may have been taken out.
        return value is None and not context.is_gap
    if value is None:
        return False
    before, at = series.value, context.moment.at
    if rule.gain is not None:
        if not is_new and not context.is_gap and before is not None:
            # A counter that became smaller began again at zero.
            growth = value - before if value >= before else value
            if growth > 0:
                series.gains.append([at, growth])
        series.gains = _trim_gains(series.gains, at - (rule.within_s or 0.0))
        series.value = value
        return sum(size for _, size in series.gains) > rule.gain
    if rule.event:
        series.value = value
        # A series that appears while the exporter is watched is one too: DCGM makes some with the first XID.
        return value != (before or 0.0) and value > 0 and not context.is_gap
    return value > rule.above if rule.above is not None else value < float(rule.below or 0.0)


def _trim_gains(gains: list[list[float]], oldest: float) -> list[list[float]]:
    kept = [pair for pair in gains if pair[0] > oldest]
    while len(kept) > MAX_GAINS:
        kept[0:2] = [[kept[1][0], kept[0][1] + kept[1][1]]]
    return kept


def _follow(
    context: _Context,
    rule: WatchRule,
    labels: Labels,
    series: SeriesState,
    value: float | None,
    *,
    holds: bool,
) -> Change | None:
    """Return the change of a series whose condition holds or does not, if it begins or ends a finding."""
    at = context.moment.at
    shown = sum(size for _, size in series.gains) if rule.gain is not None else value or 0.0

    def build_change(held_s: float, *, is_open: bool = True) -> Change:
        return Change(rule, context.exporter, labels, shown, held_s, series.position, is_open)

    if rule.event:
        return build_change(0.0) if holds else None
    if not holds:
        opened, series.since, series.open = series.open, None, None
        return None if opened is None else build_change(at - opened, is_open=False)
    if series.since is None or (context.is_gap and series.open is None):
        series.since = at
    if series.open is not None or at - series.since < rule.for_s:
        return None
    series.open = at
    return build_change(at - series.since)
