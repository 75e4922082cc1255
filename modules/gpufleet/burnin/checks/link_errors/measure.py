"""Error counters of RDMA ports and network interfaces: when the attempt began, and now, after the loads."""

from __future__ import annotations

from ...agent.fabric import read_link_counters
from ...agent.host import HostAccess, RawCheckResult, build_not_run_result


def measure_host(host: HostAccess) -> RawCheckResult:
    """Read the counters again; the controller computes the gains."""
    now = read_link_counters(host, host.get_parameter("sysfs", "/sys").rstrip("/"))
    raw = {"before": host.start_links, "after": now}
    count = len(now["ports"]) + len(now["interfaces"])
    if not count and not host.start_links.get("ports") and not host.start_links.get("interfaces"):
        return build_not_run_result("no RDMA port and no network interface that is up")
    return RawCheckResult("ran", measured=count, unit="links", raw=raw)
