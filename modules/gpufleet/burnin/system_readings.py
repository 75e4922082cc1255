"""Metrics of memory, stress-ng and the clock."""

from __future__ import annotations

import math
import re
from dataclasses import replace

from gpufleet.burnin.evidence import (
    NOT_APPLICABLE,
    CheckReadings,
    Raw,
    Reading,
    build_check_readings,
    drop_missing_metrics,
    explain_if_empty,
    list_or_empty,
    mapping_or_empty,
    to_finite_number,
)
from gpufleet.burnin.pi import decode_throttled_flags

# What a Linux kernel does not count as total memory: 64 bytes of struct page for each page of 4 KiB
# (Documentation/mm/vmemmap_dedup), and what firmware and a crash kernel reserve (policy).
PAGE_STRUCT_SHARE, FIRMWARE_SHARE, FIRMWARE_GIB = 64 / 4096, 0.01, 4.0
# Twelve modules of 16 GiB: a smaller machine may share its memory with a GPU whose firmware keeps more of it.
SMALLEST_SERVER_GIB = 192.0
# stress-ng(1), EXIT STATUS: 2 is a stressor that failed; the others are about options, resources and the run itself.
STRESS_NG_FAILED = 2
# A row of --metrics-brief: stressor, operations, three times, two rates. Older versions log it as info.
STRESS_NG_ROW = re.compile(r"(?:metrc|info): +\[\d+\] ([a-z][\w-]*) +(\d+)(?: +\d+\.\d+){5}")
# adjtimex(2): the clock is not synchronised; offsets are in nanoseconds; the state that says the same.
STA_UNSYNC, STA_NANO, TIME_ERROR = 0x0040, 0x2000, 5
# chronyc(1): fields of `chronyc -c tracking`, the offset of the system time and the leap status.
CHRONY_FIELDS, CHRONY_OFFSET, CHRONY_LEAP = 14, 4, 13


def extract_memory_metrics(raw: Raw) -> CheckReadings:
    """Size, patterns, error counters and copy rate."""
    total, expected = to_finite_number(raw.get("total_gib")), to_finite_number(raw.get("expect_memory_gib"))
    wrong_mib = [to_finite_number(value) for value in mapping_or_empty(raw.get("wrong_mib")).values()]
    counts = [
        to_finite_number(mapping_or_empty(counter).get("ue"))
        for counter in mapping_or_empty(raw.get("edac")).values()
    ]
    known = [count for count in counts if count is not None]
    metrics = drop_missing_metrics(
        total_gib=total,
        total_share=total / expected if total is not None and expected else None,
        missing_gib=count_missing_gib(total, expected) if total is not None and expected else None,
        wrong_mib=sum(value for value in wrong_mib if value is not None)
        if wrong_mib and None not in wrong_mib
        else None,
        uncorrected_errors=sum(known) if known else None,
        copy_mb_per_s=to_finite_number(raw.get("copy_mb_per_s")),
        cache_multiple=compute_cache_multiple(raw),
    )
    stress = build_check_readings(read_stress_ng(mapping_or_empty(raw.get("stress_ng"))), None, "")
    return replace(
        stress,
        metrics={**metrics, **stress.metrics},
        display_value=metrics.get("copy_mb_per_s"),
        unit="MB/s",
        details=dict.fromkeys(("missing_gib", "total_share"), f"{total or 0:g} of {expected or 0:g} GiB"),
    )


def count_missing_gib(total: float, expected: float) -> float | None:
    """Return the missing memory beyond what kernel and firmware keep of it; None where that is not known.

    A share of the declared memory that suits a small board hides a DIMM: one of 16 is 6 % of a server's memory. What
    firmware keeps for a GPU in the same memory varies: a DGX Spark shows 119.7 of 128 GiB.
    """
    if expected < SMALLEST_SERVER_GIB:
        return None
    reserved_gib = expected * (PAGE_STRUCT_SHARE + FIRMWARE_SHARE) + FIRMWARE_GIB
    return max(0.0, expected - reserved_gib - total)


def compute_cache_multiple(raw: Raw) -> float | None:
    """Return how many times the largest cache fits into the smaller one of the areas tested and copied."""
    cache, tested, copied = (
        to_finite_number(raw.get(name)) for name in ("largest_cache_mib", "tested_mib", "copy_mib")
    )
    return min(tested, copied) / cache if cache and tested is not None and copied is not None else None


def read_stress_ng(stress: Raw) -> dict[str, Reading]:
    """Return the stressors that failed their own verification; nothing applies where none was requested."""
    if stress.get("ran") is not True:
        return {"stress_ng_failures": NOT_APPLICABLE}
    code, text = to_finite_number(stress.get("code")), str(stress.get("text"))
    if code == STRESS_NG_FAILED:
        return {"stress_ng_failures": 1.0}
    operations = [float(count) for _, count in STRESS_NG_ROW.findall(text)]
    if code != 0:
        return {
            "stress_ng_failures": f"stress-ng exited with code {stress.get('code')}: {text.strip()[-120:]}"
        }
    if not operations or min(operations) == 0:
        return {"stress_ng_failures": "stress-ng reported no verified operation"}
    return {"stress_ng_failures": 0.0, "stress_ng_operations": min(operations)}


def extract_clock_metrics(raw: Raw) -> CheckReadings:
    """Whether the clock is synchronised, its offset, and its distance to the controller's."""
    kernel, chrony = mapping_or_empty(raw.get("kernel")), mapping_or_empty(raw.get("chrony"))
    status, state = to_finite_number(kernel.get("status")), to_finite_number(kernel.get("state"))
    unsynchronised: Reading = str(kernel.get("error") or "the record has no state of the kernel's clock")
    if status is not None and state is not None:
        unsynchronised = float(state == TIME_ERROR or bool(int(status) & STA_UNSYNC))
    skew = to_finite_number(raw.get("skew_s"))
    offset = read_chrony_offset_ms(str(chrony.get("text", "")), chrony.get("code"))
    readings: dict[str, Reading] = {
        "unsynchronised": unsynchronised,
        "offset_ms": offset if isinstance(offset, float) else read_kernel_offset_ms(kernel),
        "skew_s": NOT_APPLICABLE if skew is None else skew,
    }
    known = build_check_readings(readings, skew, "s")
    # The offset alone says nothing: it is 0 as well where nothing disciplines the clock.
    return (
        known
        if isinstance(unsynchronised, float) or skew is not None
        else explain_if_empty(replace(known, metrics={}))
    )


def read_kernel_offset_ms(kernel: Raw) -> Reading:
    """Return the offset that the kernel still corrects, in milliseconds."""
    offset, status = to_finite_number(kernel.get("offset")), to_finite_number(kernel.get("status"))
    if offset is None or status is None:
        return NOT_APPLICABLE
    return abs(offset) / (1e6 if int(status) & STA_NANO else 1e3)


def read_chrony_offset_ms(text: str, code: object) -> float | None:
    """Return how far chronyd takes the clock to be off, in milliseconds; None where it is not synchronised itself."""
    fields = text.strip().split(",")
    if code != 0 or len(fields) != CHRONY_FIELDS or fields[CHRONY_LEAP] == "Not synchronised":
        return None
    try:
        offset_s = float(fields[CHRONY_OFFSET])
    except ValueError:
        return None
    return abs(offset_s) * 1e3 if math.isfinite(offset_s) else None


def read_load_series(series: Raw) -> dict[str, Reading]:
    """Return the extremes of the time series that was recorded while the CPU was under load."""
    bits = to_finite_number(series.get("throttled_any"))
    alarms = to_finite_number(series.get("undervoltage_samples"))
    now = decode_throttled_flags(int(bits)) if bits is not None and 0 <= bits < 1 << 32 else {}
    fans = [mapping_or_empty(fan) for fan in list_or_empty(series.get("fans"))]
    counted = [(to_finite_number(fan.get("pwm")), to_finite_number(fan.get("rpm"))) for fan in fans]
    metrics = drop_missing_metrics(
        load_celsius=to_finite_number(series.get("celsius_max")),
        load_mhz=to_finite_number(series.get("mhz_min")),
        load_undervoltage=max(float(now.get("undervoltage_now", False)), float(bool(alarms)))
        if now or alarms is not None
        else None,
        load_throttled=float(now["throttled_now"] or now["frequency_capped_now"]) if now else None,
        stalled_fans=float(sum(bool(pwm) and rpm == 0 for pwm, rpm in counted)) if counted else None,
    )
    return dict(metrics)
