"""What RDMA ports and network interfaces counted during the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from gpufleet.burnin.evidence import CheckReadings, Raw, mapping_or_empty, to_finite_number
from gpufleet.burnin.pcie_generation import count_replays_allowed_per_minute, find_generation
from gpufleet.burnin.pi import parse_pcie_link_gt_per_s, parse_pcie_link_lanes

Gains = Mapping[str, float]
# A counter's rate is judged over at least this long: a single error in a short run is not a rate.
HOUR_S, MINUTE_S = 3600.0, 60.0
REPLAYS = "pcie_replay_count"
FASTEST_OF_AMD = 5  # MI300X; the catalogue's pcie_gen


@dataclass(frozen=True)
class RateRule:
    """A metric that is the highest rate of a counter over all ports: per ``unit_s``, over at least ``window_s``."""

    counter: str
    unit_s: float
    window_s: float


RATES = {
    "symbol_errors_per_hour": RateRule("symbol_error", HOUR_S, HOUR_S),
    "recoveries_per_minute": RateRule("link_error_recovery", MINUTE_S, MINUTE_S),
    "receive_errors_per_s": RateRule("port_rcv_errors", 1.0, MINUTE_S),
    "discards_per_s": RateRule("port_xmit_discards", 1.0, MINUTE_S),
    "ack_timeouts_per_s": RateRule("local_ack_timeout_err", 1.0, MINUTE_S),
    "slow_restarts_per_s": RateRule("roce_slow_restart", 1.0, MINUTE_S),
}
# Metrics that are the sum of gains of counters, of which none is normal.
SUMS = {
    "link_drops": ("link_downed",),
    "integrity_errors": ("local_link_integrity_errors", "excessive_buffer_overrun_errors"),
    "lost_connections": ("rnr_nak_retry_err",),
    "unanswered_commands": ("no_completion_cmds",),
}


def read_record(raw: Raw) -> CheckReadings:
    """Compute the gains of every port and interface, and name those that gained errors."""
    before, after = mapping_or_empty(raw.get("before")), mapping_or_empty(raw.get("after"))
    if not isinstance(before.get("ports"), Mapping) or not isinstance(after.get("ports"), Mapping):
        return CheckReadings(unreadable="the record contains no counters from before and after the loads")
    ports = compute_all_gains(before, after, "ports")
    interfaces, gpus = (compute_all_gains(before, after, kind) for kind in ("interfaces", "gpus"))
    seconds = compute_elapsed_s(before, after)
    metrics: dict[str, float] = {
        "ports_gone": float(len(before["ports"].keys() - after["ports"].keys())),
        "carrier_drops": sum(count_carrier_drops(gains) for gains in interfaces.values()),
    }
    details = {
        "ports_gone": ", ".join(sorted(map(str, before["ports"].keys() - after["ports"].keys()))),
        "carrier_drops": name_links(interfaces, count_carrier_drops),
    }
    for metric, counters in SUMS.items():
        metrics[metric] = sum(add_gains(gains, counters) for gains in ports.values())
        details[metric] = name_links(ports, partial(add_gains, counters=counters))
    for metric, rule in RATES.items() if seconds else ():
        scale = rule.unit_s / max(seconds, rule.window_s)
        metrics[metric] = max((gains.get(rule.counter, 0.0) * scale for gains in ports.values()), default=0.0)
        details[metric] = name_links(ports, partial(add_gains, counters=(rule.counter,)))
    if seconds and gpus:
        allowed = {str(name): count_allowed_replays(link) for name, link in after["gpus"].items()}
        minutes = max(seconds, MINUTE_S) / MINUTE_S
        metrics["pcie_replay_excess"] = max(
            gains.get(REPLAYS, 0.0) / minutes / allowed[name] for name, gains in gpus.items()
        )
        details["pcie_replay_excess"] = name_links(gpus, partial(add_gains, counters=(REPLAYS,)))
    return CheckReadings(metrics, float(len(ports) + len(interfaces) + len(gpus)), "links", details=details)


def compute_all_gains(before: Raw, after: Raw, kind: str) -> dict[str, Gains]:
    """Return what each link that is there at both times gained."""
    first, last = mapping_or_empty(before.get(kind)), mapping_or_empty(after.get(kind))
    return {
        str(name): compute_gains(mapping_or_empty(first[name]), mapping_or_empty(counters))
        for name, counters in last.items()
        if name in first
    }


def compute_gains(before: Raw, after: Raw) -> Gains:
    """Return the gain of each counter; one that was reset in between (a restart, perfquery -R) starts at zero."""
    pairs = {name: (to_finite_number(before.get(name)), to_finite_number(after.get(name))) for name in after}
    return {
        name: last - first if last >= first else last
        for name, (first, last) in pairs.items()
        if first is not None and last is not None
    }


def count_allowed_replays(link: object) -> float:
    """Return how many replays a minute a good link may have; Gen5, AMD's fastest, where a record has no link."""
    files = mapping_or_empty(link)
    generation = find_generation(parse_pcie_link_gt_per_s(files.get("max_link_speed")))
    return count_replays_allowed_per_minute(
        generation or FASTEST_OF_AMD, parse_pcie_link_lanes(files.get("max_link_width"))
    )


def compute_elapsed_s(before: Raw, after: Raw) -> float:
    """Return the seconds between both readings, by the time since boot; 0 if it is unknown."""
    first, last = (to_finite_number(reading.get("uptime_s")) for reading in (before, after))
    if first is None or last is None:
        return 0.0
    return last - first if last > first else last


def count_carrier_drops(gains: Gains) -> float:
    """Return how often an interface lost its carrier; older kernels count drops and returns together."""
    return gains.get("carrier_down_count", gains.get("carrier_changes", 0.0) // 2)


def add_gains(gains: Gains, counters: tuple[str, ...]) -> float:
    """Return the sum of a link's gains of some counters."""
    return sum(gains.get(counter, 0.0) for counter in counters)


def name_links(links: Mapping[str, Gains], count: Callable[[Gains], float]) -> str:
    """Return the links that gained something, with how much."""
    return ", ".join(f"{name} +{gain:g}" for name, gains in sorted(links.items()) if (gain := count(gains)))
