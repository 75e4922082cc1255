"""Firmware flags of a Raspberry Pi: under-voltage, frequency, temperature."""

from __future__ import annotations

from ...agent.host import HostAccess, RawCheckResult
from ...agent.tool_output import record_tool_output


def measure_host(host: HostAccess) -> RawCheckResult:
    """Read the firmware's under-voltage and throttling flags."""
    return record_tool_output(host, "vcgencmd", "get_throttled")
