"""The network between all nodes of a rack: rounds of pairs, and which node stands out of its pairs.

Each node has one partner in a round, so that no pair disturbs another one at its own port. A slow pair has two ends:
a node is blamed only if most of its pairs are worse than the rack's. Other pairs are reported with both ends.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import median, median_high, median_low
from typing import Any, NamedTuple

from gpufleet.boundary import decode_json_object, make_printable
from gpufleet.burnin.evidence import to_finite_number
from gpufleet.burnin.outliers import MIN_CUTOFF, MIN_GROUP, find_outliers
from gpufleet.burnin.pair_rates import Pair, RateComparison, SlowEnd, compare_rates
from gpufleet.errors import InputError

# Below this, one bad pair cannot be told from a bad node. Below outliers.MIN_GROUP the deviations of so few shares say
# nothing of noise: there, worse means above the median by the floor.
MIN_NODES, MIN_PARTNERS = 3, 2
# A node fails from this drop of a rate on, and warns below: NVIDIA/aicr#2784 accepts 10 % below its floor.
FAIL_DROP = 0.1
SLOW_NODE_TEXT = "with most partners"  # in the reason of a node that is slow by its rates
# A node or pair is worse if it is off by more than 3.5 times these values (outliers.find_outliers).
LOSS_FLOOR = 0.002
SHARE_FLOOR = 0.1
LONGEST_REASON = 200


@dataclass(frozen=True)
class PairMeasurement:
    """What one pair measured, from the node that drove the session."""

    node: str
    partner: str
    sent_mbit: float | None = None
    received_mbit: float | None = None
    loss_share: float | None = None
    local_mtu: float | None = None
    partner_mtu: float | None = None
    path_mtu: float | None = None
    round_trip_ms: float | None = None
    collective_gb_per_s: float | None = None
    collective_wrong_values: float | None = None
    collective_error: str = ""
    # Why an end that has GPUs could not take part in an all-reduce, by the end's name.
    idle_gpus: Mapping[str, str] = field(default_factory=dict)
    error: str = ""
    rdma_gbit: float | None = None

    @property
    def ends(self) -> tuple[str, str]:
        return self.node, self.partner

    @property
    def has_narrow_path(self) -> bool:
        """True if frames of one end's own size do not reach the other."""
        return self.local_mtu is not None and (self.path_mtu or 0.0) < self.full_mtu

    @property
    def full_mtu(self) -> float:
        """The larger one of the ends' own frame sizes."""
        return max(self.local_mtu or 0.0, self.partner_mtu or 0.0)

    def merge(self, repeated: PairMeasurement) -> PairMeasurement:
        """Return the better values of two sessions: what is slow or lost only once is noise."""
        if repeated.node != self.node:
            repeated = replace(
                repeated,
                node=self.node,
                partner=self.partner,
                sent_mbit=repeated.received_mbit,
                received_mbit=repeated.sent_mbit,
            )
        if self.error or repeated.error:
            # A pair that fails only sometimes keeps its error.
            return replace(repeated if self.error else self, error=self.error or repeated.error)
        losses = [value for value in (self.loss_share, repeated.loss_share) if value is not None]
        return replace(
            repeated,
            sent_mbit=pick_larger(self.sent_mbit, repeated.sent_mbit),
            received_mbit=pick_larger(self.received_mbit, repeated.received_mbit),
            rdma_gbit=pick_larger(self.rdma_gbit, repeated.rdma_gbit),
            collective_gb_per_s=pick_larger(self.collective_gb_per_s, repeated.collective_gb_per_s),
            loss_share=min(losses, default=None),
        )


def pick_larger(one: float | None, two: float | None) -> float | None:
    """Return the larger one of two values, of which either may be missing."""
    return max((value for value in (one, two) if value is not None), default=None)


@dataclass
class NodeNetwork:
    """One node's pairs: what they show of it, and why it stands out."""

    name: str
    outcome: str = "not_run"
    sent_mbit: float | None = None
    received_mbit: float | None = None
    loss_share: float | None = None
    path_mtu: float | None = None
    collective_gb_per_s: float | None = None
    collective_missing: str = ""
    pairs: int = 0
    failed_pairs: int = 0
    reasons: list[str] = field(default_factory=list)
    rdma_gbit: float | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def build_rounds(names: Sequence[str]) -> list[list[tuple[str, str]]]:
    """Return rounds in which each name has one partner, and meets every other one once (circle method).

    With an odd number of names, one of them rests in each round. Names take turns in driving a session.
    """
    numbers: list[int | None] = [*range(len(set(names))), *([None] if len(set(names)) % 2 else [])]
    ordered, rounds = sorted(set(names)), []
    for turn in range(len(numbers) - 1):
        ring = [numbers[0], *numbers[1:][turn:], *numbers[1:][:turn]]
        pairs = [
            (one, two) if ((one + two) % 2) == (one < two) else (two, one)
            for one, two in zip(ring, ring[: len(ring) // 2 - 1 : -1], strict=False)
            if one is not None and two is not None
        ]
        rounds.append([(ordered[one], ordered[two]) for one, two in pairs])
    return [pairs for pairs in rounds if pairs]


def assign_roles(pairs: Iterable[tuple[str, str]]) -> dict[str, dict[str, Any]]:
    """Return, by name, its partner in a round and whether it drives the session; the other one listens."""
    roles: dict[str, dict[str, Any]] = {}
    for driver, listener in pairs:
        roles[driver] = {"partner": listener, "drives": True}
        roles[listener] = {"partner": driver, "drives": False}
    return roles


def read_pair_session(node: str, partner: str, output: str, errors: str) -> PairMeasurement:
    """Return what a session's program printed; a session without a report has an error."""
    try:
        facts = decode_json_object(output.strip(), f"{node} to {partner}")
    except InputError:
        lines = errors.strip().splitlines() or ["the session gave no report"]
        return PairMeasurement(node, partner, error=make_printable(lines[-1])[:LONGEST_REASON])
    return read_pair_measurement(node, partner, facts)


def read_pair_measurement(node: str, partner: str, facts: Mapping[str, Any]) -> PairMeasurement:
    """Return a pair's measurement; values that cannot be are left out, a pair without a rate has an error."""
    sent, arrived = (to_finite_number(facts.get(name)) for name in ("datagrams_sent", "datagrams_received"))
    sent_mbit, received_mbit = (read_positive(facts.get(name)) for name in ("sent_mbit", "received_mbit"))
    error = facts.get("error")
    step = facts.get("failed_step")
    reason = f"{step}: {error}" if error and step else str(error or "")
    if not reason and None in (sent_mbit, received_mbit):
        reason = "no rate was measured"
    return PairMeasurement(
        node,
        partner,
        sent_mbit,
        received_mbit,
        loss_share=1 - arrived / sent if sent and arrived is not None and 0 <= arrived <= sent else None,
        local_mtu=read_positive(facts.get("local_mtu")),
        partner_mtu=read_positive(facts.get("partner_mtu")),
        path_mtu=read_positive(facts.get("path_mtu")),
        round_trip_ms=read_positive(facts.get("round_trip_ms")),
        collective_gb_per_s=read_positive(facts.get("collective_gb_per_s")),
        collective_wrong_values=read_positive(facts.get("collective_wrong_values")),
        collective_error=make_printable(str(facts.get("collective_error") or ""))[:LONGEST_REASON],
        idle_gpus={
            name: make_printable(str(text))[:LONGEST_REASON]
            for name, end in ((node, "own"), (partner, "partner"))
            if (text := facts.get(f"{end}_collective_missing"))
        },
        error=make_printable(reason)[:LONGEST_REASON],
        rdma_gbit=read_positive(facts.get("rdma_gbit")),
    )


def read_positive(value: Any) -> float | None:
    """Return a positive number, or None."""
    number = to_finite_number(value)
    return number if number is not None and number > 0 else None


def judge_mesh(names: Iterable[str], pairs: Iterable[PairMeasurement]) -> dict[str, NodeNetwork]:
    """Return each node's outcome: fail if it stands out, warn for pairs of which neither node is blamed.

    A node whose GPUs took part in no all-reduce warns if others did; if no node's did, it was not measured.
    """
    measured = merge_repeats(pairs)
    nodes = {name: NodeNetwork(name) for name in sorted(set(names))}
    own_pairs: dict[str, list[PairMeasurement]] = defaultdict(list)
    for pair in measured:
        for end in pair.ends:
            own_pairs[end].append(pair)
    for node in nodes.values():
        summarize_pairs(node, own_pairs[node.name])
    failed = blame_outliers(nodes, own_pairs)
    comparisons = compare_pair_rates(measured)
    failed |= blame_slow_nodes(nodes, comparisons)
    blamed = {node.name for node in nodes.values() if node.reasons}
    for ends, problem in [*list_pair_problems(measured), *list_slow_pairs(comparisons)]:
        if not blamed & set(ends):
            for name, other in (ends, ends[::-1]):
                nodes[name].reasons.append(f"{other}: {problem}")
    silent = report_missing_collectives(nodes)
    is_measured = any(node.collective_gb_per_s for node in nodes.values())
    for node in nodes.values():
        has_wrong_sums = any(
            pair.collective_wrong_values and not blamed & set(pair.ends) for pair in own_pairs[node.name]
        )
        node.outcome = decide_outcome(
            node,
            is_blamed=node.name in failed or has_wrong_sums,
            is_incomplete=node.name in silent and not is_measured,
        )
    return nodes


def report_missing_collectives(nodes: Mapping[str, NodeNetwork]) -> dict[str, NodeNetwork]:
    """Give nodes whose GPUs took part in no all-reduce the reason; return them.

    If no node's GPUs did, the outcome of these is ``not_run``: a node with GPUs must not pass without.
    """
    is_measured = any(node.collective_gb_per_s for node in nodes.values())
    silent = {name: node for name, node in nodes.items() if node.collective_missing}
    for node in silent.values():
        node.reasons.append(f"no all-reduce over its GPUs: {node.collective_missing}")
        if not is_measured:
            node.outcome = "not_run"
    return silent


def merge_repeats(pairs: Iterable[PairMeasurement]) -> list[PairMeasurement]:
    """Return one measurement for each pair: of a pair that was measured again, the better values."""
    merged: dict[frozenset[str], PairMeasurement] = {}
    for pair in pairs:
        key = frozenset(pair.ends)
        merged[key] = merged[key].merge(pair) if key in merged else pair
    return list(merged.values())


def list_suspect_pairs(names: Iterable[str], pairs: Iterable[PairMeasurement]) -> list[Pair]:
    """Return the pairs to measure again before they are reported: those with a problem that no node explains."""
    measured = merge_repeats(pairs)
    nodes = judge_mesh(names, measured)
    comparisons = compare_pair_rates(measured)
    problems = [ends for ends, _ in [*list_pair_problems(measured), *list_slow_pairs(comparisons)]]
    return sorted({ends for ends in problems if not any(nodes[end].outcome == "fail" for end in ends)})


def summarize_pairs(node: NodeNetwork, pairs: list[PairMeasurement]) -> None:
    """Sum a node's pairs up by its median: the better one of two, for a pair has another end too."""
    good = [pair for pair in pairs if not pair.error]
    node.pairs, node.failed_pairs = len(pairs), len(pairs) - len(good)
    if good:
        node.sent_mbit = median_high(pick_rate(pair, node.name, sending=True) for pair in good)
        node.received_mbit = median_high(pick_rate(pair, node.name, sending=False) for pair in good)
    losses = [pair.loss_share for pair in good if pair.loss_share is not None]
    paths = [pair.path_mtu for pair in good if pair.path_mtu is not None]
    node.loss_share = median_low(losses) if losses else None
    node.path_mtu = median_high(paths) if paths else None
    rdma = [pair.rdma_gbit for pair in good if pair.rdma_gbit is not None]
    node.rdma_gbit = median_high(rdma) if rdma else None
    collectives = [pair.collective_gb_per_s for pair in good if pair.collective_gb_per_s is not None]
    node.collective_gb_per_s = median_high(collectives) if collectives else None
    idle = [pair.idle_gpus[node.name] for pair in good if node.name in pair.idle_gpus]
    node.collective_missing = idle[0] if idle and not collectives else ""


def pick_rate(pair: PairMeasurement, name: str, *, sending: bool) -> float:
    """Return the rate at which one end of a pair sent or received."""
    rate = pair.sent_mbit if (pair.node == name) == sending else pair.received_mbit
    return rate or 0.0


def blame_outliers(nodes: dict[str, NodeNetwork], own_pairs: Mapping[str, list[PairMeasurement]]) -> set[str]:
    """Give each node that stands out by a share of its pairs its reasons; return those nodes."""
    compared: list[tuple[str, float, dict[str, float], str]] = [
        ("loses", LOSS_FLOOR, {n.name: n.loss_share for n in nodes.values() if n.loss_share is not None},
         "of its datagrams"),
        ("fails in", SHARE_FLOOR, share_of(own_pairs, lambda pair: bool(pair.error)), "of its pairs"),
        ("gets wrong sums in", SHARE_FLOOR,
         share_of(own_pairs, lambda pair: bool(pair.collective_wrong_values)), "of its pairs"),
        ("passes no full frames in", SHARE_FLOOR,
         share_of(own_pairs, lambda pair: pair.has_narrow_path), "of its pairs"),
    ]  # fmt: skip
    blamed = set()
    for verb, floor, values, unit in compared:
        for worse in find_worse(values, floor):
            text = f"{verb} {worse.value:.3g} {unit}, the rack's median is {worse.median:.3g}"
            nodes[worse.name].reasons.append(text)
            blamed.add(worse.name)
    return blamed


class RateKind(NamedTuple):
    """A rate that pairs are compared by; one without a direction has no verb of the second end."""

    verb: str
    second_verb: str
    unit: str


RATE_KINDS = (
    RateKind("sends", "receives", "Mbit/s"),
    RateKind("writes by RDMA at", "", "Gbit/s"),
    RateKind("all-reduces at", "", "GB/s"),
)


def compare_pair_rates(pairs: Iterable[PairMeasurement]) -> list[tuple[RateKind, RateComparison]]:
    """Return what stands out by each kind of rate."""
    rates: list[dict[Pair, float]] = [{}, {}, {}]
    for pair in pairs:
        if pair.error:
            continue
        both = ((pair.ends, pair.sent_mbit), (pair.ends[::-1], pair.received_mbit))
        rates[0].update({ends: rate for ends, rate in both if rate})
        for values, rate in ((rates[1], pair.rdma_gbit), (rates[2], pair.collective_gb_per_s)):
            if rate:
                values[pair.ends] = rate
    return [(kind, compare_rates(values)) for kind, values in zip(RATE_KINDS, rates, strict=True)]


def blame_slow_nodes(
    nodes: dict[str, NodeNetwork], comparisons: Iterable[tuple[RateKind, RateComparison]]
) -> set[str]:
    """Give each node that is slower than its peers its reasons; return those that are slow enough to fail."""
    failed = set()
    for kind, comparison in comparisons:
        for verb, ends in ((kind.verb, comparison.senders), (kind.second_verb, comparison.receivers)):
            for end in ends:
                nodes[end.name].reasons.append(format_slow_end(verb, end, kind.unit))
                if end.drop >= FAIL_DROP:
                    failed.add(end.name)
    return failed


def format_slow_end(verb: str, end: SlowEnd, unit: str) -> str:
    """Return the evidence against a slow node."""
    return (
        f"{verb} {end.measured:.4g} {unit} {SLOW_NODE_TEXT}, its peers {end.expected:.4g}: {end.drop:.1%} less,"
        f" {end.score:.1f} times the spread"
    )


def list_slow_pairs(comparisons: Iterable[tuple[RateKind, RateComparison]]) -> list[tuple[Pair, str]]:
    """Return the pairs that are slower than their ends are with others, each once for a kind of rate."""
    problems = {}
    for kind, comparison in comparisons:
        for slow in reversed(comparison.pairs):  # the slower direction is the last one to be kept
            text = (
                f"{slow.measured:.4g} {kind.unit}, both ends with others {slow.expected:.4g}: {slow.drop:.1%} less,"
                f" {slow.score:.1f} times the spread"
            )
            problems[kind, frozenset(slow.ends)] = (slow.ends, text)
    return list(problems.values())


class WorseNode(NamedTuple):
    """A node that is worse than the rack's median."""

    name: str
    value: float
    median: float


def find_worse(values: Mapping[str, float], floor: float) -> list[WorseNode]:
    """Return the nodes whose value is higher: by median and MAD, in a small rack above the median by the floor."""
    if len(values) >= MIN_GROUP:
        found = find_outliers(values, bad="high", relative_floor=0.0, absolute_floor=floor)
        return [WorseNode(outlier.name, outlier.value, outlier.median) for outlier in found]
    if len(values) < MIN_NODES:
        return []
    middle = median(values.values())
    limit = middle + MIN_CUTOFF * floor
    return [WorseNode(name, value, middle) for name, value in values.items() if value > limit]


def share_of(
    own_pairs: Mapping[str, list[PairMeasurement]], is_bad: Callable[[PairMeasurement], bool]
) -> dict[str, float]:
    """Return each node's share of bad pairs."""
    return {name: sum(map(is_bad, pairs)) / len(pairs) for name, pairs in own_pairs.items() if pairs}


def list_pair_problems(pairs: list[PairMeasurement]) -> list[tuple[Pair, str]]:
    """Return what is wrong with single pairs, rates excepted."""
    problems = [(pair.ends, pair.error) for pair in pairs if pair.error]
    problems += [
        (pair.ends, f"frames of {pair.full_mtu:g} bytes do not pass, {pair.path_mtu or 0:g} do")
        for pair in pairs
        if not pair.error and pair.has_narrow_path
    ]
    problems += [
        (pair.ends, f"all-reduce: {pair.collective_error}") for pair in pairs if pair.collective_error
    ]
    problems += [
        (pair.ends, f"{pair.collective_wrong_values:g} wrong values of an all-reduce over the GPUs of both")
        for pair in pairs
        if pair.collective_wrong_values
    ]
    by_name = {" - ".join(pair.ends): pair for pair in pairs if not pair.error}
    lossy = {name: pair.loss_share for name, pair in by_name.items() if pair.loss_share is not None}
    problems += [
        (by_name[outlier.name].ends, f"{outlier.value:.1%} of the datagrams were lost")
        for outlier in find_outliers(lossy, bad="high", relative_floor=0.0, absolute_floor=LOSS_FLOOR)
    ]
    return problems


def decide_outcome(node: NodeNetwork, *, is_blamed: bool, is_incomplete: bool) -> str:
    """Return a node's outcome; without any measured pair, or any all-reduce of GPUs, the check is not complete."""
    if is_blamed and node.failed_pairs < node.pairs:
        return "fail"
    if node.failed_pairs == node.pairs or is_incomplete:
        return "not_run"
    return "warn" if node.reasons else "pass"


def summarize_node(node: NodeNetwork) -> str:
    """Return one line for a person; a failed node's reasons are those of its failed task."""
    good = node.pairs - node.failed_pairs
    parts = [f"network {node.outcome} ({good} of {node.pairs} pairs)"]
    if good:
        parts.append(f"sends {node.sent_mbit or 0:.0f}, receives {node.received_mbit or 0:.0f} Mbit/s")
    if node.loss_share is not None:
        parts.append(f"loses {node.loss_share:.1%}")
    if node.rdma_gbit:
        parts.append(f"RDMA at {node.rdma_gbit:.3g} Gbit/s")
    if node.collective_gb_per_s:
        parts.append(f"all-reduces at {node.collective_gb_per_s:.3g} GB/s")
    elif node.collective_missing:
        parts.append("no all-reduce")
    return ", ".join(parts) + (
        "" if node.outcome == "fail" else "".join(f"; {reason}" for reason in node.reasons)
    )
