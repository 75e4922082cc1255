"""Compare the rates of pairs: which node is slow with most partners, and which single pair is slow.

The logarithm of a rate is taken as a level, plus an effect of each end, plus noise. Tukey's median polish
(Exploratory Data Analysis, 1977, chapter 10) estimates the effects, so that one slow pair does not move a node, and one
slow node does not move its partners. What remains is the noise of a session. All spreads are estimated from the run
itself, with a typical one where the run has few values.

`tests/burnin/test_pair_rates.py` measures false alarms and the smallest difference found on simulated noise.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import median, median_high
from typing import NamedTuple

from gpufleet.burnin.outliers import MAD_TO_SIGMA, compute_cutoff

Pair = tuple[str, str]

# Smaller differences are not reported, however small the noise is.
MIN_DROP = 0.05
# Below two partners, a slow node cannot be told from a slow pair; below three nodes there is nothing to compare.
MIN_PARTNERS, MIN_NODES = 2, 3
POLISH_TURNS = 4
# The standard error of a median is this many times that of a mean (normal noise).
MEDIAN_TO_MEAN_ERROR = 1.2533
# Few values say little of their spread. A typical spread counts as so many values more: two healthy pairs of
# NVIDIA/nccl-tests#106 gave 88.36 and 86.81 GB/s, a standard deviation of about 1 %.
TYPICAL_SPREAD, TYPICAL_VALUES = 0.01, 4
# Share of the information of a standard deviation that the MAD of normal noise has (Croux and Rousseeuw, 1992).
MAD_EFFICIENCY = 0.37
# What the polish fits exactly says nothing of the noise, and with so few other values one slow pair is most of it: then
# only the typical spread counts. The polish makes the others smaller too, by a factor found by simulation.
FITTED, MIN_LOOSE, LOOSE_FACTOR = 1e-9, 7, 1.1


@dataclass(frozen=True, kw_only=True)
class SlowRate:
    """A rate below the expected one; ``score`` is the difference in spreads."""

    measured: float
    expected: float
    score: float

    @property
    def drop(self) -> float:
        """The share of the expected rate that is missing."""
        return 1 - self.measured / self.expected


@dataclass(frozen=True, kw_only=True)
class SlowEnd(SlowRate):
    """A node whose rates to most partners are lower than those of its peers."""

    name: str


@dataclass(frozen=True, kw_only=True)
class SlowPair(SlowRate):
    """A pair that is slower than its two ends are with others."""

    ends: Pair


@dataclass(frozen=True)
class RateComparison:
    """What stands out, from the first end (``senders``), to the second end (``receivers``), and between both."""

    senders: tuple[SlowEnd, ...] = ()
    receivers: tuple[SlowEnd, ...] = ()
    pairs: tuple[SlowPair, ...] = ()


def compare_rates(rates: Mapping[Pair, float]) -> RateComparison:
    """Return the nodes and pairs that are slower than their peers; a rate is from the first end to the second.

    A rate without a direction, such as that of an all-reduce, may be given once for a pair.
    """
    directed = {**{pair[::-1]: rate for pair, rate in rates.items()}, **rates}
    has_direction = len(rates) > len(directed) / 2
    if len({name for pair in directed for name in pair}) < MIN_NODES:
        return RateComparison()
    logs = {pair: log(rate) for pair, rate in (rates if has_direction else directed).items()}
    effects: tuple[dict[str, float], dict[str, float]] = (defaultdict(float), defaultdict(float))
    remainders = logs
    for _ in range(POLISH_TURNS):
        for axis in (0, 1):
            for name, middle in summarize_by_end(remainders, axis, median_high).items():
                effects[axis][name] += middle
            remainders = {
                pair: value - effects[0][pair[0]] - effects[1][pair[1]] for pair, value in logs.items()
            }
    fitted = len(effects[0]) + (len(effects[1]) - 1 if has_direction else 0)
    sessions = {pair: remainders[pair] for pair in rates}
    distances = sorted(LOOSE_FACTOR * abs(value) for value in sessions.values())
    loose = distances[min(fitted, sum(distance < FITTED for distance in distances)) :]
    free = len(sessions) - fitted
    noise = estimate_spread(loose, free) if free >= MIN_LOOSE else Spread(TYPICAL_SPREAD, TYPICAL_VALUES)
    ends = [find_slow_ends(logs, axis, effects[axis], noise) for axis in (0, 1)]
    return RateComparison(ends[0], ends[1] if has_direction else (), find_slow_pairs(rates, sessions, noise))


def summarize_by_end(
    values: Mapping[Pair, float], axis: int, summarize: Callable[[list[float]], float]
) -> dict[str, float]:
    """Return one number for each first or second end of pairs."""
    grouped: dict[str, list[float]] = defaultdict(list)
    for pair, value in values.items():
        grouped[pair[axis]].append(value)
    return {name: summarize(group) for name, group in grouped.items()}


class Spread(NamedTuple):
    """A standard deviation in logarithms, and how many values it is as good as."""

    value: float
    weight: float

    def limit(self, values: int) -> float:
        """Return the distance above which one of so many healthy values is found once in a hundred runs.

        The correction for the uncertain spread is the first one of Student's distribution (Abramowitz and Stegun,
        Handbook of Mathematical Functions, 26.7.5).
        """
        cutoff = compute_cutoff(values)
        return cutoff * (1 + (cutoff**2 + 1) / (4 * self.weight)) * self.value


def estimate_spread(distances: Sequence[float], free: int) -> Spread:
    """Return the spread of distances from their middle, of which ``free`` are independent."""
    weight = MAD_EFFICIENCY * free
    own = MAD_TO_SIGMA * median(map(abs, distances))
    value = sqrt((TYPICAL_VALUES * TYPICAL_SPREAD**2 + weight * own**2) / (TYPICAL_VALUES + weight))
    return Spread(value, TYPICAL_VALUES + weight)


def find_slow_ends(
    logs: Mapping[Pair, float], axis: int, effects: Mapping[str, float], noise: Spread
) -> tuple[SlowEnd, ...]:
    """Return the ends that are slower than the others with most of their partners, slowest first."""
    partners = summarize_by_end(logs, axis, lambda group: float(len(group)))
    known = {name: effect for name, effect in effects.items() if partners[name] >= MIN_PARTNERS}
    if len(known) < MIN_NODES:
        return ()
    middle = median(known.values())
    between = estimate_spread([effect - middle for effect in known.values()], len(known) - 1)
    measured = summarize_by_end(logs, axis, median_high)
    found = []
    for name, effect in known.items():
        error = MEDIAN_TO_MEAN_ERROR * noise.value / sqrt(partners[name])
        spread = max(between, Spread(error, noise.weight))
        if middle - effect > max(-log(1 - MIN_DROP), spread.limit(len(known))):
            expected = exp(measured[name] + middle - effect)
            score = (middle - effect) / spread.value
            found.append(SlowEnd(name=name, measured=exp(measured[name]), expected=expected, score=score))
    return tuple(sorted(found, key=lambda end: (-end.drop, end.name)))


def find_slow_pairs(
    rates: Mapping[Pair, float], remainders: Mapping[Pair, float], noise: Spread
) -> tuple[SlowPair, ...]:
    """Return the pairs that are slower than their ends explain, slowest first."""
    middle = median(remainders.values())
    limit = max(-log(1 - MIN_DROP), noise.limit(len(rates)))
    found = [
        SlowPair(
            ends=pair,
            measured=rates[pair],
            expected=rates[pair] * exp(middle - remainder),
            score=(middle - remainder) / noise.value,
        )
        for pair, remainder in remainders.items()
        if middle - remainder > limit
    ]
    return tuple(sorted(found, key=lambda pair: (-pair.drop, pair.ends)))
