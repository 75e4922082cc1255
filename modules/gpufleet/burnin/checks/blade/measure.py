"""The status of a Compute Blade's own agent."""

from __future__ import annotations

from ...agent.host import HostAccess, RawCheckResult
from ...agent.tool_output import record_tool_output


def measure_host(host: HostAccess) -> RawCheckResult:
    """Record the status of the blade's agent (fan, power, identity); it is not judged."""
    return record_tool_output(host, "bladectl", "get", "status")
