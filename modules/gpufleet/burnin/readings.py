"""Compute a check's metrics from its raw record; pure, and never trusting the record."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpufleet.burnin import nvidia, pi

Raw = Mapping[str, Any]
MEMORY_BACKED = {"tmpfs", "ramfs"}


@dataclass(frozen=True)
class Readings:
    """Metrics of one check; ``display_value`` is what a report displays."""

    metrics: dict[str, float] = field(default_factory=dict)
    display_value: float | str | None = None
    unit: str = ""
    # Why nothing can be judged, when the record's content makes no sense.
    unreadable: str = ""


def parse_number(value: Any) -> float | None:
    """Return a finite number, or None for anything else (booleans do not count)."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e18 and math.isfinite(value) else None  # noqa: PLR2004 - sanity


def as_mapping(value: Any) -> Raw:
    """Return a mapping, or an empty one."""
    return value if isinstance(value, Mapping) else {}


def as_list(value: Any) -> list[Any]:
    """Return a list, or an empty one."""
    return value if isinstance(value, list) else []


def drop_missing(**metrics: float | None) -> dict[str, float]:
    """Leave out what was not measured."""
    return {name: value for name, value in metrics.items() if value is not None}


def count_missing(expected: float | None, actual: float | None) -> float | None:
    """Return how many are missing against a declared number; None where none is declared."""
    return max(0.0, expected - actual) if expected and actual is not None else None


def read_configuration(raw: Raw) -> Readings:
    """Whether the base configuration went through, as the registry or the playbook says."""
    state = raw.get("configured")
    return Readings({"failures": 0.0 if state else 1.0}) if isinstance(state, bool) else Readings()


def read_cpu(raw: Raw) -> Readings:
    """Cores, rounds and wrong answers."""
    online, usable, rounds = (
        parse_number(raw.get(key)) for key in ("cores_online", "cores_usable", "rounds")
    )
    lost = raw.get("workers_lost")
    stress = as_mapping(raw.get("stress_ng"))
    wrong_answers = parse_number(raw.get("wrong"))
    if wrong_answers is not None and stress.get("ran") is True and stress.get("code") != 0:
        wrong_answers += 1  # stress-ng verifies too, and says so by its exit code
    metrics = drop_missing(
        wrong_answers=wrong_answers,
        workers_lost=float(len(lost)) if isinstance(lost, list) else None,
        rounds_per_core=rounds / usable if rounds is not None and usable else None,
        cores_online=online,
        cores_missing=count_missing(parse_number(raw.get("expect_cores")), online),
    )
    return Readings(metrics, parse_number(raw.get("hash_mb_per_s")), "MB/s")


def read_memory(raw: Raw) -> Readings:
    """Size, patterns, error counters and copy rate."""
    total, expected = parse_number(raw.get("total_gib")), parse_number(raw.get("expect_memory_gib"))
    wrong_mib = [parse_number(value) for value in as_mapping(raw.get("wrong_mib")).values()]
    counts = [parse_number(as_mapping(counter).get("ue")) for counter in as_mapping(raw.get("edac")).values()]
    known = [count for count in counts if count is not None]
    metrics = drop_missing(
        total_gib=total,
        total_share=total / expected if total is not None and expected else None,
        wrong_mib=sum(value for value in wrong_mib if value is not None)
        if wrong_mib and None not in wrong_mib
        else None,
        uncorrected_errors=sum(known) if known else None,
        copy_mb_per_s=parse_number(raw.get("copy_mb_per_s")),
    )
    return Readings(metrics, metrics.get("copy_mb_per_s"), "MB/s")


def read_storage(raw: Raw) -> Readings:
    """Room, mount state, and what the scratch file showed."""
    root, scratch = as_mapping(raw.get("root")), as_mapping(raw.get("scratch"))
    on_disk = str(scratch.get("type")) not in MEMORY_BACKED
    wrote = "write_error" in raw or parse_number(raw.get("write_mb_per_s")) is not None
    state = root.get("read_only")
    metrics = drop_missing(
        read_only=float(state) if isinstance(state, bool) else None,
        free_share=parse_number(root.get("free_share")),
        free_gib=parse_number(root.get("free_gib")),
        inodes_free_share=parse_number(root.get("inodes_free_share")),
        write_errors=float("write_error" in raw) if wrote else None,
        wrong_mib=parse_number(raw.get("wrong_mib")),
        # A file in memory says nothing about the disk.
        write_mb_per_s=parse_number(raw.get("write_mb_per_s")) if on_disk else None,
    )
    return Readings(metrics, metrics.get("write_mb_per_s"), "MB/s")


def read_network(raw: Raw) -> Readings:
    """Link speed, error share, round trips, throughput."""
    link, trips, rate = (as_mapping(raw.get(key)) for key in ("link", "round_trip", "throughput"))
    sent, lost, speed = (
        parse_number(trips.get("sent")),
        parse_number(trips.get("lost")),
        parse_number(link.get("speed_mbit")),
    )
    errors = [parse_number(link.get(key)) for key in ("rx_errors", "tx_errors", "rx_crc_errors")]
    packets = sum(parse_number(link.get(key)) or 0.0 for key in ("rx_packets", "tx_packets"))
    mbit = parse_number(rate.get("mbit"))
    metrics = drop_missing(
        lost=lost,
        lost_share=lost / sent if lost is not None and sent else None,
        round_trip_ms=parse_number(trips.get("median_ms")),
        # Drivers of virtual links answer -1: they do not know.
        speed_mbit=speed if speed is not None and speed > 0 else None,
        error_share=sum(value or 0.0 for value in errors) / packets if packets else None,
        throughput_errors=float("error" in rate) if "error" in rate or mbit is not None else None,
        peer_mbit=mbit if rate.get("method") != "loopback" else None,
    )
    return Readings(metrics, metrics.get("round_trip_ms"), "ms")


def read_pi_throttled(raw: Raw) -> Readings:
    """Read the firmware's flags, one metric each."""
    bits = pi.parse_throttled(str(raw.get("text", "")))
    if bits is None:
        return Readings(unreadable=f"not the output of get_throttled: {str(raw.get('text'))[:60]!r}")
    flags = {name: float(is_set) for name, is_set in pi.decode_throttled(bits).items()}
    return Readings(
        {**flags, "undocumented_bits": float(pi.mask_undocumented_bits(bits))}, f"{bits:#x}", "flags"
    )


def read_pi_temperature(raw: Raw) -> Readings:
    """Degrees Celsius of the SoC."""
    celsius = pi.parse_temperature(str(raw.get("text", "")))
    if celsius is None:
        return Readings(unreadable=f"not the output of measure_temp: {str(raw.get('text'))[:60]!r}")
    return Readings({"celsius": celsius}, celsius, "°C")


def read_nvme_link(raw: Raw) -> Readings:
    """Drives against the declared number, and the slowest link."""
    devices = raw.get("devices")
    if not isinstance(devices, list):
        return Readings(unreadable="the record contains no list of drives")
    speeds = [pi.parse_link_speed(as_mapping(device).get("current_link_speed")) for device in devices]
    lanes = [pi.parse_link_width(as_mapping(device).get("current_link_width")) for device in devices]
    known_speeds = [speed for speed in speeds if speed is not None]
    known_lanes = [float(width) for width in lanes if width is not None]
    metrics = drop_missing(
        drives=float(len(devices)),
        drives_missing=count_missing(parse_number(raw.get("expect_nvme")), float(len(devices))),
        link_gt_per_s=min(known_speeds) if len(known_speeds) == len(devices) and devices else None,
        link_lanes=min(known_lanes) if len(known_lanes) == len(devices) and devices else None,
    )
    return Readings(metrics, metrics.get("link_gt_per_s"), "GT/s")


def read_smart(raw: Raw) -> Readings:
    """Read what the drives predict and count."""
    drives = [as_mapping(drive) for drive in as_list(raw.get("drives"))]
    verdicts = [as_mapping(drive.get("smart_status")).get("passed") for drive in drives]
    judged = [verdict for verdict in verdicts if isinstance(verdict, bool)]
    logs = [as_mapping(drive.get("nvme_smart_health_information_log")) for drive in drives]
    errors = [value for log in logs if (value := parse_number(log.get("media_errors"))) is not None]
    used = [value for log in logs if (value := parse_number(log.get("percentage_used"))) is not None]
    metrics = drop_missing(
        failing=float(judged.count(False)) if judged and len(judged) == len(drives) else None,
        media_errors=sum(errors) if errors else None,
        percentage_used=max(used) if used else None,
    )
    return Readings(metrics, metrics.get("percentage_used"), "%")


def read_gpu_nvidia(raw: Raw) -> Readings:
    """Count and health of NVIDIA GPUs."""
    xml = nvidia.unpack_text(raw.get("xml"))
    gpus = nvidia.parse_smi_report(xml) if xml is not None else None
    if gpus is None:
        return Readings(unreadable="the output is not a report of nvidia-smi -q -x")
    on_bus = float(len(as_list(raw.get("on_bus"))))
    expected = max(parse_number(raw.get("expect_gpus")) or 0.0, on_bus, 1.0)
    margins = [gpu.slowdown_c - gpu.temperature_c for gpu in gpus if gpu.slowdown_c and gpu.temperature_c]
    narrow = [gpu.link_width < gpu.link_width_max for gpu in gpus if gpu.link_width and gpu.link_width_max]
    metrics = drop_missing(
        gpus_missing=max(0.0, expected - len(gpus)),
        ecc_uncorrected=sum_known_values([gpu.ecc_uncorrected for gpu in gpus]),
        remap_pending=sum_known_values([gpu.remap_pending for gpu in gpus]),
        remap_failed=sum_known_values([gpu.remap_failed for gpu in gpus]),
        hardware_slowdown=sum_known_values([gpu.hardware_slowdown for gpu in gpus]),
        link_narrow=float(sum(narrow)) if narrow else None,
        thermal_margin_c=float(min(margins)) if margins else None,
    )
    return Readings(metrics, float(len(gpus)), "GPUs")


def sum_known_values(values: list[int | None] | list[bool | None]) -> float | None:
    """Sum what is known; None when nothing is."""
    known = [float(value) for value in values if value is not None]
    return sum(known) if known else None


def read_gpu_xid(raw: Raw) -> Readings:
    """XIDs in the kernel log, by what they ask for."""
    if not isinstance(raw.get("lines"), list):
        return Readings(unreadable="the record contains no list of kernel log lines")
    counts = nvidia.count_xid_classes(nvidia.parse_xids([str(line) for line in raw["lines"]]))
    return Readings(
        {name: float(count) for name, count in counts.items()}, float(sum(counts.values())), "events"
    )


def read_gpu_amd(raw: Raw) -> Readings:
    """Count of AMD GPUs and whether a driver holds them."""
    devices = [as_mapping(device) for device in as_list(raw.get("devices"))]
    expected = max(parse_number(raw.get("expect_gpus")) or 0.0, 1.0)
    metrics = drop_missing(
        gpus_missing=max(0.0, expected - len(devices)),
        without_driver=float(sum(not device.get("driver") for device in devices)),
    )
    return Readings(metrics, float(len(devices)), "GPUs")


READERS: dict[str, Callable[[Raw], Readings]] = {
    "configuration": read_configuration,
    "cpu": read_cpu,
    "memory": read_memory,
    "storage": read_storage,
    "network": read_network,
    "pi_throttled": read_pi_throttled,
    "pi_temperature": read_pi_temperature,
    "nvme_link": read_nvme_link,
    "smart": read_smart,
    "gpu_nvidia": read_gpu_nvidia,
    "gpu_xid": read_gpu_xid,
    "gpu_amd": read_gpu_amd,
}


def read_metrics(name: str, raw: Raw) -> Readings:
    """Return a check's metrics; none for a check without a reader in READERS."""
    reader = READERS.get(name)
    return reader(raw) if reader else Readings()
