"""NVMe drives against the declared number, and their PCIe links."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpufleet.burnin import pi
from gpufleet.burnin.evidence import (
    NOT_APPLICABLE,
    CheckReadings,
    Raw,
    Reading,
    add_up_counts,
    build_check_readings,
    count_missing,
    drop_missing_metrics,
    mapping_or_empty,
    to_finite_number,
)

LINK_NAMES = ("current_link_{}", "max_link_{}", "port_max_link_{}")


def read_record(raw: Raw) -> CheckReadings:
    """Drives against the declared number, and the slowest link."""
    devices = raw.get("devices")
    if not isinstance(devices, list):
        return CheckReadings(unreadable="the record contains no list of drives")
    speeds = collect_link_values(devices, "current_link_speed", pi.parse_pcie_link_gt_per_s)
    lanes = collect_link_values(devices, "current_link_width", pi.parse_pcie_link_lanes)
    metrics = drop_missing_metrics(
        drives=float(len(devices)),
        drives_missing=count_missing_drives(raw, len(devices)),
        link_gt_per_s=min(speeds) if len(speeds) == len(devices) and devices else None,
        link_lanes=min(lanes) if len(lanes) == len(devices) and devices else None,
    )
    below = build_check_readings(
        {
            "links_slow": add_up_counts(
                is_link_below(device, "speed", pi.parse_pcie_link_gt_per_s) for device in devices
            ),
            "links_narrow": add_up_counts(
                is_link_below(device, "width", pi.parse_pcie_link_lanes) for device in devices
            ),
        },
        None,
        "",
    )
    return CheckReadings(
        {**metrics, **below.metrics},
        metrics.get("link_gt_per_s"),
        "GT/s",
        not_applicable=frozenset() if devices else frozenset({"link_gt_per_s", "link_lanes"}),
    )


def count_missing_drives(raw: Raw, present: int) -> float | None:
    """Return how many declared drives are missing; none of an agent's record where the inventory declares none."""
    declared = to_finite_number(raw.get("expect_nvme"))
    if declared == 0 and isinstance(raw.get("root"), str):
        return 0.0
    return count_missing(declared, float(present))


def is_link_below(device: Any, field: str, parse: Callable[[object], float | int | None]) -> Reading:
    """Return 1 for a drive whose link is below what both drive and port can; unknown ports are not judged."""
    facts = mapping_or_empty(device)
    current, own, port = (parse(facts.get(name.format(field))) for name in LINK_NAMES)
    if current is None or own is None or port is None:
        return NOT_APPLICABLE
    return float(current < min(own, port))


def collect_link_values(
    devices: list[Any], name: str, parse: Callable[[object], float | int | None]
) -> list[float]:
    """Return the known values of one field of the drives' links."""
    values = (parse(mapping_or_empty(device).get(name)) for device in devices)
    return [float(value) for value in values if value is not None]
