"""A rack with a thin or bad uplink: all its nodes are slow with most partners, and fast inside the rack."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import exp, log
from statistics import median

from gpufleet.boundary import make_printable
from gpufleet.burnin.isolation_session import list_rates
from gpufleet.burnin.mesh import FAIL_DROP, RATE_KINDS, SLOW_NODE_TEXT, NodeNetwork, PairMeasurement
from gpufleet.burnin.pair_rates import MIN_DROP


def explain_uplinks(
    nodes: Mapping[str, NodeNetwork], sessions: Iterable[PairMeasurement], domains: Mapping[str, str]
) -> list[str]:
    """Give nodes that are slow only outside their domain (rack) the link as the reason; return a line for each link.

    Such a node warns: it is good with its neighbours. A node alone in its domain keeps its outcome, and its reason says
    that the link may be slow in its place.
    """
    measured, lines = [pair for pair in sessions if not pair.error], []
    members: dict[str, list[NodeNetwork]] = defaultdict(list)
    for name, node in nodes.items():
        members[domains.get(name, "")].append(node)
    if len(members) < 2:  # noqa: PLR2004 - one rack has no link to another
        return []
    for domain, own in sorted(members.items()):
        if not domain or not all(is_slow_only(node) for node in own):
            continue
        if len(own) == 1:
            own[0].reasons.append(
                f"it is alone in {make_printable(domain, 60)}, whose link may be slow in its place"
            )
            continue
        for number, kind in enumerate(RATE_KINDS):
            inside, usual, outside = collect_levels(measured, domains, domain, number)
            if not inside or not outside:
                continue
            level = median(inside)
            is_usual = not usual or level >= median(usual) + log(1 - FAIL_DROP)
            if is_usual and median(outside) < level + log(1 - MIN_DROP):
                text = (
                    f"link of {make_printable(domain, 60)} to the others: {exp(median(outside)):.4g} {kind.unit},"
                    f" inside it {exp(level):.4g}"
                )
                lines.append(f"{text}: its {len(own)} nodes are good with each other")
                for node in own:
                    node.outcome, node.reasons = "warn", [text]
                break
    return lines


def is_slow_only(node: NodeNetwork) -> bool:
    """Return whether a node stands out, and by nothing but its rates with most partners."""
    return bool(node.reasons) and all(SLOW_NODE_TEXT in reason for reason in node.reasons)


def collect_levels(
    measured: Sequence[PairMeasurement], domains: Mapping[str, str], domain: str, kind: int
) -> tuple[list[float], list[float], list[float]]:
    """Return the rates (in logarithms) inside a domain, inside the others, and between it and the others."""
    levels: tuple[list[float], list[float], list[float]] = ([], [], [])
    for pair in measured:
        one, two = (domains.get(end, "") for end in pair.ends)
        if one == two:
            found = levels[0 if one == domain else 1]
        elif domain in (one, two):
            found = levels[2]
        else:
            continue
        found += [log(rate) for rate in list_rates(pair)[kind]]
    return levels
