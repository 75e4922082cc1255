"""The flags of a Raspberry Pi's firmware, one metric each."""

from __future__ import annotations

from gpufleet.burnin import pi
from gpufleet.burnin.evidence import CheckReadings, Raw


def read_record(raw: Raw) -> CheckReadings:
    """Read the firmware's flags, one metric each."""
    bits = pi.parse_throttled_bits(str(raw.get("text", "")))
    if bits is None:
        return CheckReadings(unreadable=f"not the output of get_throttled: {str(raw.get('text'))[:60]!r}")
    flags = {name: float(is_set) for name, is_set in pi.decode_throttled_flags(bits).items()}
    return CheckReadings(
        {**flags, "undocumented_bits": float(pi.count_undocumented_bits(bits))}, f"{bits:#x}", "flags"
    )
