"""The temperature of a Raspberry Pi's SoC."""

from __future__ import annotations

from ...agent.host import HostAccess, RawCheckResult
from ...agent.identity import is_raspberry_pi
from ...agent.tool_output import record_tool_output


def measure_host(host: HostAccess) -> RawCheckResult:
    """Read the SoC temperature from the firmware; without its tool, from the kernel on a Pi."""
    answer = record_tool_output(host, "vcgencmd", "measure_temp")
    zone = "/sys/class/thermal/thermal_zone0/temp"
    milli = host.read_integer_file(zone) if answer.status == "not_run" and is_raspberry_pi(host) else None
    if milli is None:
        return answer
    return RawCheckResult("ran", raw={"command": zone, "text": f"temp={milli / 1000:.1f}'C"})
