"""Compare a node's fabric adapters with the fabric that its stack declares."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from gpufleet.burnin.evidence import Raw, count_missing, list_or_empty, mapping_or_empty, to_finite_number
from gpufleet.burnin.thresholds import load_thresholds

# The link layer of the ports that carry a fabric. A VF for IP is an Ethernet port next to InfiniBand's (Azure).
PORT_LAYERS = {"infiniband": "InfiniBand", "roce": "Ethernet", "gpudirect_rdma": "Ethernet"}
EFA = "efa"
# GPUDirect-TCPX and -TCPXO use Google's virtual NICs (driver gve); the first one is for everything else.
GVNIC_FABRICS, GVNIC_DRIVER = ("gpudirect_tcpx", "gpudirect_tcpxo"), "gve"
# sysfs: "4: ACTIVE", "400 Gb/sec (4X NDR)".
ACTIVE = "4:"
DISABLED = "3:"  # phys_state of a port that somebody switched off
LEAST_EQUAL_CARDS = 3
# The drops of a port since boot count over at least this long.
DAY_S, FLAP_DAYS = 86_400.0, 30.0
RATE = re.compile(r"(\d+(?:\.\d+)?) Gb/sec")


@dataclass(frozen=True)
class FabricComparison:
    """Metrics of the declared fabric, and for a metric what a person looks for: which device, which state."""

    metrics: dict[str, float | None] = field(default_factory=dict)
    details: dict[str, str] = field(default_factory=dict)


def compare_fabric(raw: Raw) -> FabricComparison:
    """Return metrics of the declared fabric; none where none is declared."""
    kind, found = str(raw.get("expect_fabric") or ""), mapping_or_empty(raw.get("fabric"))
    adapters = to_finite_number(raw.get("expect_fabric_adapters"))
    if kind in PORT_LAYERS:
        names = parse_device_names(raw.get("expect_fabric_devices"))
        ports = [
            port
            for entry in list_or_empty(found.get("rdma"))
            if (port := mapping_or_empty(entry)).get("link_layer") == PORT_LAYERS[kind]
            and (not names or port.get("device") in names)
        ]
        return compare_ports(ports, names, adapters, to_finite_number(raw.get("expect_fabric_gbit_per_s")))
    if kind == EFA:
        devices = [mapping_or_empty(entry) for entry in list_or_empty(found.get("efa"))]
        missing = count_missing(adapters, float(len(devices)))
        without = float(sum(device.get("driver") != EFA for device in devices))
        return FabricComparison({"fabric_adapters_missing": missing, "fabric_without_driver": without})
    if kind in GVNIC_FABRICS:
        drivers = [mapping_or_empty(entry).get("driver") for entry in list_or_empty(found.get("interfaces"))]
        others = max(0, drivers.count(GVNIC_DRIVER) - 1)
        return FabricComparison({"fabric_adapters_missing": count_missing(adapters, float(others))})
    return FabricComparison()


def parse_device_names(value: Any) -> tuple[str, ...]:
    """Return the names of the declared RDMA devices; none where only their number is declared."""
    return tuple(name for name in str(value or "").split(",") if name)


def compare_ports(
    ports: list[Raw], names: tuple[str, ...], adapters: float | None, gbit_per_s: float | None
) -> FabricComparison:
    """Compare RDMA ports with their declared number and rate.

    A server may have more ports of the same link layer than its fabric: those of its storage or its uplink. Where the
    fabric's devices are not named, a port counts for the fabric if it has the fabric's rate: once any port has it, a
    faster one is never the fabric's, and a slower one only takes the place of one that lacks. A port that is down has
    no rate, so it is a fault only if too few others have it. Ports that may belong to either are counted: behind them
    a missing one would not show. If no active port has the rate, none can be told from the others: that is counted too.
    """
    declared = int(adapters) if adapters else len(ports)
    port_rate = gbit_per_s / declared if gbit_per_s and declared else None
    counted_rate, other_rates = math.inf, 0
    if port_rate and any(has_port_rate(port, port_rate) for port in ports):
        counted_rate = port_rate  # what one port has more does not make up for what another has less
        if not names:
            ports = [port for port in ports if not is_faster(port, port_rate)]
    elif port_rate and not names:
        other_rates = sum(is_active(port) for port in ports)
    active = sorted((port for port in ports if is_active(port)), key=read_rate, reverse=True)
    slow = [port for port in active if port_rate and read_rate(port) < port_rate * read_same_rate_share()]
    down = [port for port in ports if not is_active(port)]
    down_count, unclear = len(down), 0
    if len(ports) > declared:
        down_count = min(down_count, max(0, declared - (len(active) - len(slow))))
        unclear = max(0, len(ports) - len(slow) - declared)
    missing_names = [name for name in names if name not in {port.get("device") for port in ports}]
    return FabricComparison(
        {
            "fabric_adapters_missing": count_missing(adapters, float(len(ports))),
            "fabric_ports_down": float(down_count),
            "fabric_rate_share": sum(min(read_rate(port), counted_rate) for port in active[:declared])
            / gbit_per_s
            if gbit_per_s
            else None,
            "fabric_unclear_ports": float(unclear),
            "fabric_ports_of_other_rate": float(other_rates),
        },
        {
            "fabric_adapters_missing": " ".join([f"{len(ports)} of {declared}", *missing_names]),
            "fabric_ports_down": ", ".join(f"{name_port(port)} {port.get('state')}" for port in down),
            "fabric_rate_share": ", ".join(f"{name_port(port)} {port.get('rate')}" for port in slow),
            "fabric_unclear_ports": f"{len(ports)} ports, {declared} declared; name the fabric's devices"
            " (hardware.fabric.devices of the rack file)",
            "fabric_ports_of_other_rate": f"declared {port_rate or 0:g} Gb/sec, "
            + ", ".join(f"{name_port(port)} {port.get('rate')}" for port in active),
        },
    )


@cache
def read_same_rate_share() -> float:
    """Return from which share of the declared rate a rate is the same: the kernel rounds, as the threshold allows."""
    return next(row.value or 0.0 for row in load_thresholds() if row.metric == "fabric_rate_share")


def has_port_rate(port: Raw, port_rate: float) -> bool:
    """Return whether an active port has the declared rate."""
    share = read_same_rate_share()
    return is_active(port) and share * port_rate <= read_rate(port) <= (2 - share) * port_rate


def is_faster(port: Raw, port_rate: float) -> bool:
    """Return whether an active port has more than the declared rate."""
    return is_active(port) and read_rate(port) > port_rate and not has_port_rate(port, port_rate)


def name_port(port: Raw) -> str:
    """Return device and port as a person finds them in sysfs."""
    return f"{port.get('device')}/{port.get('port')}"


def is_active(port: Raw) -> bool:
    """Return whether a port's link is up and configured."""
    return str(port.get("state")).startswith(ACTIVE)


def read_rate(port: Raw) -> float:
    """Return a port's rate in Gbit/s; 0 if it is not a rate."""
    rate = RATE.match(str(port.get("rate")))
    return float(rate[1]) if rate else 0.0


def compare_ports_with_history(raw: Raw) -> FabricComparison:
    """Return the worst port's drops since boot, and the cards with fewer active ports than equal ones.

    These need no declaration. A card below its equals counts only where the fabric's ports are not declared.
    """
    fabric = mapping_or_empty(raw.get("fabric"))
    ports = [mapping_or_empty(entry) for entry in list_or_empty(fabric.get("rdma"))]
    drops = [
        (count, name_port(port))
        for port in ports
        if (count := to_finite_number(mapping_or_empty(port.get("counters")).get("link_downed"))) is not None
    ]
    uptime = to_finite_number(fabric.get("uptime_s")) or 0.0
    days = max(uptime / DAY_S, FLAP_DAYS)
    below = [] if str(raw.get("expect_fabric") or "") in PORT_LAYERS else find_cards_below_equals(ports)
    return FabricComparison(
        {
            "fabric_port_flaps": max(count for count, _ in drops) * FLAP_DAYS / days if drops else None,
            "fabric_cards_below_equals": float(len(below)) if ports else None,
        },
        {
            "fabric_port_flaps": ", ".join(
                f"{name} dropped {count:g} times since boot"
                for count, name in sorted(drops, reverse=True)[:4]
                if count
            )
            + (f" {uptime / DAY_S:.0f} days ago" if uptime >= DAY_S else ""),
            "fabric_cards_below_equals": ", ".join(below),
        },
    )


def find_cards_below_equals(ports: list[Raw]) -> list[str]:
    """Return the ports that are down on cards with fewer active ports than most cards of the same model.

    A port that somebody disabled is not down, and two cards have no majority.
    """
    cards: dict[tuple[str, str], dict[str, list[Raw]]] = {}
    for port in ports:
        model, card = port.get("model"), port.get("card")
        if (
            model
            and card
            and not port.get("is_virtual")
            and not str(port.get("phys_state")).startswith(DISABLED)
        ):
            equals = cards.setdefault((str(model), str(port.get("link_layer"))), {})
            equals.setdefault(str(card), []).append(port)
    below = []
    for equals in cards.values():
        active = {card: sum(map(is_active, card_ports)) for card, card_ports in equals.items()}
        usual, count = Counter(active.values()).most_common(1)[0]
        if len(equals) >= LEAST_EQUAL_CARDS and count > len(equals) / 2:
            below += [
                f"{name_port(port)} {port.get('state')}"
                for card, card_ports in equals.items()
                for port in card_ports
                if active[card] < usual and not is_active(port)
            ]
    return below
