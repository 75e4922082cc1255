"""Whether the clock is synchronised, its offset, and its distance to the controller's."""

from __future__ import annotations

import math
from dataclasses import replace

from gpufleet.burnin.evidence import (
    NOT_APPLICABLE,
    CheckReadings,
    Raw,
    Reading,
    build_check_readings,
    explain_if_empty,
    mapping_or_empty,
    to_finite_number,
)

# adjtimex(2): the clock is not synchronised; offsets are in nanoseconds; the state that says the same.
STA_UNSYNC, STA_NANO, TIME_ERROR = 0x0040, 0x2000, 5
# chronyc(1): fields of `chronyc -c tracking`, the offset of the system time and the leap status.
CHRONY_FIELDS, CHRONY_OFFSET, CHRONY_LEAP = 14, 4, 13


def read_record(raw: Raw) -> CheckReadings:
    """Read the kernel's clock state and chrony's report; an offset alone is no evidence."""
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
