"""Degrees Celsius of a Raspberry Pi's SoC."""

from __future__ import annotations

from gpufleet.burnin import pi
from gpufleet.burnin.evidence import CheckReadings, Raw


def read_record(raw: Raw) -> CheckReadings:
    """Return the temperature."""
    celsius = pi.parse_vcgencmd_celsius(str(raw.get("text", "")))
    if celsius is None:
        return CheckReadings(unreadable=f"not the output of measure_temp: {str(raw.get('text'))[:60]!r}")
    return CheckReadings({"celsius": celsius}, celsius, "°C")
