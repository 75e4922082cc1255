"""What is wrong with a session of the group tests, compared with the others of its kind: inside or between groups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import median
from typing import Literal

from gpufleet.burnin.mesh import FAIL_DROP, LOSS_FLOOR, RATE_KINDS, PairMeasurement
from gpufleet.burnin.outliers import MIN_CUTOFF
from gpufleet.burnin.pair_rates import MIN_DROP, Pair, estimate_spread

Purpose = Literal["screen", "repeat", "confirm", "between", "link"]

# Below this many sessions there is no median to compare with.
MIN_REFERENCE = 3
# If this share of many sessions is low by less than FAIL_DROP, it is how this network measures, and no node.
MOST_SLIGHT, MANY_SESSIONS = 0.15, 50
# A reference that would miss a node that is slower by this share is reported.
UNSEEN_DROP = 0.2


@dataclass(frozen=True)
class Session:
    """One measured pair: why it is bad, empty if it is good, and the share of the expected rate that is missing."""

    ends: Pair
    purpose: Purpose
    problem: str = ""
    drop: float = 0.0

    def partner_of(self, name: str) -> str:
        """Return the other end."""
        return self.ends[1] if self.ends[0] == name else self.ends[0]


@dataclass(frozen=True)
class Reference:
    """What good sessions of a kind measure: the middle and the lowest of them, in logarithms."""

    middle: float
    lowest: float


def judge_sessions(
    measured: Sequence[tuple[Purpose, PairMeasurement]], is_between: Callable[[Pair], bool]
) -> list[Session]:
    """Return each measurement with its problem, compared with those inside groups or those between groups."""
    between = [is_between(pair.ends) for _, pair in measured]
    samples: dict[tuple[int, bool], list[list[float]]] = defaultdict(list)
    losses = []
    for (purpose, pair), crosses in zip(measured, between, strict=True):
        if purpose in ("screen", "between") and not pair.error:
            for kind, rates in enumerate(list_rates(pair)):
                samples[kind, crosses] += [[log(rate) for rate in rates]] if rates else []
            losses += [pair.loss_share] if pair.loss_share is not None else []
    references = {
        key: build_reference(found) for key, found in samples.items() if sum(map(len, found)) >= MIN_REFERENCE
    }
    most_loss = (median(losses) if losses else 0.0) + MIN_CUTOFF * LOSS_FLOOR
    return [
        judge_session(purpose, pair, references, crosses=crosses, most_loss=most_loss)
        for (purpose, pair), crosses in zip(measured, between, strict=True)
    ]


def describe_spreads(
    measured: Sequence[tuple[Purpose, PairMeasurement]], is_between: Callable[[Pair], bool]
) -> tuple[str, ...]:
    """Return what the rates cannot show: where they differ so much that no slow node stands out, or by place."""
    notes = []
    for number, kind in enumerate(RATE_KINDS):
        middles = []
        for crosses, place in ((False, "inside groups"), (True, "between groups")):
            sessions = [
                [log(rate) for rate in list_rates(pair)[number]]
                for purpose, pair in measured
                if purpose in ("screen", "between") and not pair.error and is_between(pair.ends) == crosses
            ]
            sessions = [rates for rates in sessions if rates]
            values = sorted(value for rates in sessions for value in rates)
            if len(values) < MIN_REFERENCE:
                continue
            reference, edge = build_reference(sessions), len(values) // 10
            lowest = exp(reference.lowest)
            middles.append(exp(reference.middle))
            slight = count_slight(sessions, reference.middle)
            if len(sessions) >= MANY_SESSIONS and slight > MOST_SLIGHT * len(sessions):
                notes.append(
                    f"{slight} of {len(sessions)} sessions {place} are {MIN_DROP:.0%} to {FAIL_DROP:.0%} below the"
                    f" middle, {middles[-1]:.4g} {kind.unit}: too many to be nodes, so only larger differences count"
                )
            if lowest < (1 - UNSEEN_DROP) * middles[-1]:
                notes.append(
                    f"rates {place} are from {exp(values[edge]):.4g} to {exp(values[-1 - edge]):.4g} {kind.unit}:"
                    f" a node stands out only below {lowest:.4g}; if many may be slow, set a bound for the rate"
                )
            fast = sum(value > reference.middle - log(1 - FAIL_DROP) for value in values)
            if fast > MOST_SLIGHT * len(values):
                notes.append(
                    f"{fast} of {len(values)} rates {place} are at least {FAIL_DROP:.0%} above the middle,"
                    f" {middles[-1]:.4g} {kind.unit}: many nodes or links may be slow; set a bound for the rate"
                )
        if len(middles) > 1 and middles[1] < (1 - UNSEEN_DROP) * middles[0]:
            notes.append(
                f"rates between groups are {middles[1]:.4g} {kind.unit}, inside groups {middles[0]:.4g}: by design, or"
                " most links between groups are slow"
            )
    return tuple(notes)


def list_rates(pair: PairMeasurement) -> list[list[float]]:
    """Return the rates of a pair by their kind (mesh.RATE_KINDS)."""
    kinds = ((pair.sent_mbit, pair.received_mbit), (pair.rdma_gbit,), (pair.collective_gb_per_s,))
    return [[rate for rate in rates if rate] for rates in kinds]


def build_reference(sessions: Sequence[Sequence[float]]) -> Reference:
    """Return the middle of the rates of sessions (in logarithms), and the lowest that is not an outlier among them."""
    values = [value for rates in sessions for value in rates]
    middle = median(values)
    spread = estimate_spread([value - middle for value in values], len(values) - 1)
    least, fails = -log(1 - MIN_DROP), -log(1 - FAIL_DROP)
    distance = max(least, spread.limit(len(values)))
    if len(sessions) >= MANY_SESSIONS and count_slight(sessions, middle) > MOST_SLIGHT * len(sessions):
        distance = max(distance, fails)
    return Reference(middle, middle - distance)


def count_slight(sessions: Sequence[Sequence[float]], middle: float) -> int:
    """Return how many sessions are below the middle by less than FAIL_DROP, and by more than MIN_DROP."""
    least, fails = -log(1 - MIN_DROP), -log(1 - FAIL_DROP)
    return sum(least < middle - min(rates) <= fails for rates in sessions)


def judge_session(
    purpose: Purpose,
    pair: PairMeasurement,
    references: Mapping[tuple[int, bool], Reference],
    *,
    crosses: bool,
    most_loss: float,
) -> Session:
    """Return a session with what is wrong with it: an error, the largest missing share of a rate, or lost frames."""
    if pair.error:
        return Session(pair.ends, purpose, f"fails ({pair.error})", 1.0)
    if pair.collective_error:
        return Session(pair.ends, purpose, f"fails to all-reduce ({pair.collective_error})", 1.0)
    if pair.collective_wrong_values:
        return Session(
            pair.ends, purpose, f"gets {pair.collective_wrong_values:g} wrong values of an all-reduce", 1.0
        )
    if pair.has_narrow_path:
        return Session(pair.ends, purpose, f"passes {pair.path_mtu or 0:g} of {pair.full_mtu:g} bytes", 1.0)
    worst = Session(pair.ends, purpose)
    for number, (kind, rates) in enumerate(zip(RATE_KINDS, list_rates(pair), strict=True)):
        reference = references.get((number, crosses)) or references.get((number, not crosses))
        for rate in rates:
            if reference and log(rate) < reference.lowest:
                expected = exp(reference.middle)
                drop = 1 - rate / expected
                if drop > worst.drop:
                    text = f"{rate:.4g} {kind.unit} of {expected:.4g} ({drop:.0%} less)"
                    worst = Session(pair.ends, purpose, text, drop)
    if not worst.problem and (pair.loss_share or 0.0) > most_loss:
        return Session(pair.ends, purpose, f"loses {pair.loss_share:.1%} of its datagrams", 1.0)
    return worst
