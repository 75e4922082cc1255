"""Error counters of RDMA ports and network interfaces: when the attempt began, and now, after the loads."""

from __future__ import annotations

from ...agent.fabric import read_link_counters
from ...agent.host import HostAccess, RawCheckResult, build_not_run_result


def measure_host(host: HostAccess) -> RawCheckResult:
    """Read the counters again; the controller computes the gains."""
    now = read_link_counters(host, host.get_parameter("sysfs", "/sys").rstrip("/"))
    raw = {"before": host.start_links, "after": now}
    kinds = ("ports", "interfaces", "gpus")
    count = sum(len(now[kind]) for kind in kinds)
    if not count and not any(host.start_links.get(kind) for kind in kinds):
        return build_not_run_result("no RDMA port, no network interface that is up, no AMD GPU")
    return RawCheckResult("ran", measured=count, unit="links", raw=raw)
