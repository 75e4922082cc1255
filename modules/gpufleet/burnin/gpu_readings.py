"""Metrics of GPU work: what the agent's own kernels computed, moved and saw while the GPUs were loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from gpufleet.burnin.evidence import (
    NOT_APPLICABLE,
    CheckReadings,
    Raw,
    Reading,
    add_up_counts,
    build_check_readings,
    count_missing_gpus,
    find_highest,
    find_lowest,
    list_or_empty,
    mapping_or_empty,
    to_finite_number,
)
from gpufleet.burnin.pcie_generation import (
    SECONDS_PER_MINUTE,
    count_replays_allowed_per_minute,
    find_generation,
)
from gpufleet.burnin.pi import parse_pcie_link_gt_per_s, parse_pcie_link_lanes

# Errors of a GPU that kernels tested here can only meet on broken hardware, by the CUresult of cuda.h: illegal address,
# uncorrectable ECC, uncorrectable NVLink, hardware stack, illegal instruction, misaligned address, invalid address
# space, invalid PC, launch failed.
HARDWARE_ERROR_CODES = frozenset({214, 220, 700, 714, 715, 716, 717, 718, 719})
# nvml.h: nvmlClocksEventReason HwSlowdown, HwThermalSlowdown, HwPowerBrakeSlowdown; SwThermalSlowdown.
HARDWARE_SLOWDOWN, THERMAL_SLOWDOWN = 0x8 | 0x40 | 0x80, 0x20
MIN_TESTED_SHARE = 0.5
# nvmlDeviceGpuRecoveryAction_t by the words of nvidia-smi -q (gpu_recovery_action).
RECOVERY_ACTION = "recovery_action"
RECOVERY_ACTIONS = {"Reset": 1, "Reboot": 2, "Drain P2P": 3, "Drain and Reset": 4}

DeviceReader = Callable[[Raw], Reading]


def show(raw: Raw, readings: dict[str, Reading], shown: Reading, unit: str) -> CheckReadings:
    """Add what every check of GPU work counts, and name the number that a report displays."""
    devices = list_devices(raw)
    if not isinstance(raw.get("devices"), list):
        return CheckReadings(unreadable="the record contains no list of GPUs")
    readings["gpus_missing"] = count_missing_gpus(raw, len(devices))
    return build_check_readings(readings, shown if isinstance(shown, float) else None, unit)


def list_devices(raw: Raw) -> list[Raw]:
    """Return the devices' records."""
    return [mapping_or_empty(device) for device in list_or_empty(raw.get("devices"))]


def read_devices(raw: Raw, readers: dict[str, DeviceReader]) -> dict[str, Reading]:
    """Return each metric over all devices: counts are added up, the lowest rate and margin decide."""
    devices = list_devices(raw)
    readings: dict[str, Reading] = {}
    for name, read in readers.items():
        merge = add_up_counts if name in COUNTS else find_highest if name in HIGHEST else find_lowest
        readings[name] = merge([explain_untested(device) or read(device) for device in devices])
    readings["hardware_errors"] = add_up_counts([count_hardware_errors(device) for device in devices])
    return readings


def explain_untested(device: Raw) -> str:
    """Return why a device has no results, or nothing."""
    for key in ("busy", "failed", "error"):
        if key in device:
            return str(device[key])[:200] or key
    return "" if device else "the record of a GPU is empty"


def count_hardware_errors(device: Raw) -> Reading:
    """Return 1 where the driver ended the work with an error that only broken hardware gives."""
    if "failed" in device:
        is_hardware = device.get("code") in HARDWARE_ERROR_CODES
        return 1.0 if is_hardware else explain_untested(device)
    return explain_untested(device) or 0.0


def sum_fields(fields: Iterable[tuple[str, Any]]) -> Reading:
    """Return the sum of counts; one that is not a number makes the sum unknown, unless another one is a fault."""
    return add_up_counts(
        f"{name} is not a count" if number is None or number < 0 else number
        for name, number in ((name, to_finite_number(value)) for name, value in fields)
    )


def count_wrong_memory(device: Raw) -> Reading:
    """Return wrong vectors of all patterns; less than half of the free memory is no test."""
    wrong = mapping_or_empty(device.get("wrong_vectors"))
    tested, free = (to_finite_number(device.get(name)) for name in ("tested_bytes", "free_bytes"))
    total = sum_fields((f"pattern {name}", count) for name, count in wrong.items())
    if not isinstance(total, float) or total:
        return total if wrong else "no pattern was tested"
    if not tested or not free or tested < free * MIN_TESTED_SHARE:
        return f"only {tested or 0:.0f} of {free or 0:.0f} free bytes were tested"
    return total


def count_differing_checksums(devices: Sequence[Raw]) -> Reading:
    """Return how many other checksums equal GPUs have for the same product."""
    checksums: dict[tuple[str, str, str], set[str]] = {}
    for device in devices:
        for entry in list_or_empty(device.get("matmul")):
            product = mapping_or_empty(entry)
            key = (str(device.get("name")), str(product.get("kernel")), str(product.get("size")))
            checksums.setdefault(key, set()).add(str(product.get("checksum")))
    if not checksums:
        return NOT_APPLICABLE
    return float(sum(len(different) - 1 for different in checksums.values()))


def read_number(name: str) -> DeviceReader:
    """Return the reader of one rate."""

    def read(device: Raw) -> Reading:
        value = to_finite_number(device.get(name))
        return f"{name} is missing" if value is None else value

    return read


def read_extreme(device: Raw, name: str, place: int) -> float | None:
    """Return the lowest (0) or highest (1) reading of a sensor under load."""
    extremes = list_or_empty(
        mapping_or_empty(mapping_or_empty(device.get("series")).get("extremes")).get(name)
    )
    return to_finite_number(extremes[place]) if len(extremes) == 2 else None  # noqa: PLR2004 - lowest and highest


def has_event(bits: int) -> DeviceReader:
    """Return the reader that is 1 if the driver reported one of these event reasons under load."""

    def read(device: Raw) -> Reading:
        seen = mapping_or_empty(device.get("series")).get("event_reasons_seen")
        if read_extreme(device, "event_reasons", 1) is None or not isinstance(seen, int):
            return str(device.get("sensors_missing") or "no sensor was read under load")[:200]
        return float(bool(seen & bits))

    return read


def read_margin(device: Raw) -> Reading:
    """Return the smallest margin to slowdown under load; drivers before 550 do not tell it."""
    margin = read_extreme(device, "margin_c", 0)
    if margin is not None:
        return margin
    slowdown = to_finite_number(mapping_or_empty(device.get("limits")).get("slowdown_c"))
    hottest = read_extreme(device, "celsius", 1)
    return NOT_APPLICABLE if slowdown is None or hottest is None else slowdown - hottest


def count_gained(name: str) -> DeviceReader:
    """Return the reader of what an error counter gained during the check."""

    def read(device: Raw) -> Reading:
        before, after = (
            to_finite_number(mapping_or_empty(device.get(f"errors_{when}")).get(name))
            for when in ("before", "after")
        )
        if before is None and after is None:
            return NOT_APPLICABLE  # gpu_nvidia judges whether this card must have the counter
        if before is None or after is None:
            return f"{name} could be read only once"
        return max(0.0, after - before)

    return read


def compare_gained_replays(device: Raw) -> Reading:
    """Return the PCIe replays that a load gained, as a multiple of what a good link may have in that time.

    A load that is shorter than a minute counts as one minute: DCGM looks at one minute.
    """
    gained = count_gained("pcie_replays")(device)
    if not isinstance(gained, float):
        return NOT_APPLICABLE  # no card must have this counter
    allowed = count_replays_allowed_per_minute(
        read_extreme(device, "link_generation", 1), read_extreme(device, "link_lanes", 1)
    )
    return gained / max(1.0, read_load_seconds(device) / SECONDS_PER_MINUTE) / allowed


def read_load_seconds(device: Raw) -> float:
    """Return how long the sensors of a load were read; 0 where they were not."""
    samples = list_or_empty(mapping_or_empty(device.get("series")).get("samples"))
    last = list_or_empty(samples[-1]) if samples else []
    return (to_finite_number(last[0]) if last else None) or 0.0


def read_link_crc_rate(device: Raw) -> Reading:
    """Return the CRC errors of all NVLinks of a GPU per second of the load."""
    gained = count_gained("nvlink_crc_errors")(device)
    return gained / max(1.0, read_load_seconds(device)) if isinstance(gained, float) else NOT_APPLICABLE


def count_lost_links(device: Raw) -> Reading:
    """Return how many NVLinks went down during the check; a GPU without any has none to lose."""
    before, after = (
        to_finite_number(mapping_or_empty(device.get(f"errors_{when}")).get("nvlinks_active"))
        for when in ("before", "after")
    )
    return NOT_APPLICABLE if before is None or after is None else max(0.0, before - after)


def count_gained_if_read(name: str) -> DeviceReader:
    """Return the reader of what a counter gained; one that was not read twice does not apply."""

    def read(device: Raw) -> Reading:
        gained = count_gained(name)(device)
        return gained if isinstance(gained, float) else NOT_APPLICABLE

    return read


def is_set_after(name: str) -> DeviceReader:
    """Return the reader of a state after the check: 1 if it is set."""

    def read(device: Raw) -> Reading:
        state = to_finite_number(mapping_or_empty(device.get("errors_after")).get(name))
        return NOT_APPLICABLE if state is None else float(state != 0)

    return read


def judge_link(current: float | None, possible: Sequence[float | None]) -> Reading:
    """Return 1 if the link under load is below what card and slot can; an unknown slot is not judged."""
    known = [value for value in possible if value is not None]
    if len(known) < len(possible):
        return NOT_APPLICABLE
    return "the link was not read under load" if current is None else float(current < min(known))


def is_link_narrow(device: Raw) -> Reading:
    """Compare the lanes under load with card and slot. In a VM the slot is unknown."""
    slot = mapping_or_empty(device.get("slot"))
    lanes = [
        parse_pcie_link_lanes(mapping_or_empty(slot.get(place)).get("max_link_width"))
        for place in ("card", "port")
    ]
    return judge_link(read_extreme(device, "link_lanes", 1), lanes)


def is_link_slow(device: Raw) -> Reading:
    """Compare the generation under load with card and slot."""
    slot = mapping_or_empty(device.get("slot"))
    speeds = [
        parse_pcie_link_gt_per_s(mapping_or_empty(slot.get(place)).get("max_link_speed"))
        for place in ("card", "port")
    ]
    generations = [find_generation(speed) for speed in speeds]
    return judge_link(read_extreme(device, "link_generation", 1), generations)


LOAD_READERS: dict[str, DeviceReader] = {
    "hardware_slowdown": has_event(HARDWARE_SLOWDOWN),
    "thermal_slowdown": has_event(THERMAL_SLOWDOWN),
    "thermal_margin_c": read_margin,
    "ecc_gained": count_gained("ecc_uncorrected"),
    "ecc_corrected_gained": count_gained_if_read("ecc_corrected"),
    "pcie_replay_excess": compare_gained_replays,
    "nvlinks_lost": count_lost_links,
    "nvlink_recoveries": count_gained_if_read("nvlink_recoveries"),
    "nvlink_replays": count_gained_if_read("nvlink_replays"),
    "nvlink_crc_per_s": read_link_crc_rate,
    "remap_pending": is_set_after("remap_pending"),
    "remap_failed": is_set_after("remap_failed"),
    RECOVERY_ACTION: is_set_after(RECOVERY_ACTION),
}
HIGHEST = frozenset({"pcie_replay_excess", "nvlink_crc_per_s"})
COUNTS = frozenset(
    {"wrong_results", "wrong_vectors", "link_narrow", "link_slow", *LOAD_READERS}
    - HIGHEST
    - {"thermal_margin_c"}
)
