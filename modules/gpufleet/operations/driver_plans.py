"""Reads every host's hardware and plans its driver, with reasons. Changes nothing on any host."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from gpufleet import remote
from gpufleet.drivers import report
from gpufleet.operations.run_plan import plan_run

PLAY = "plan"


@dataclass(frozen=True)
class HostDriverPlan:
    """One host: its plan, or why there is none."""

    name: str
    status: str
    reason: str
    plan: dict[str, Any] | None

    def as_json(self) -> dict[str, Any]:
        """Return the stable shape of ``gpufleet configure --plan --json``."""
        return {"name": self.name, "status": self.status, "reason": self.reason, "plan": self.plan}


@dataclass(frozen=True)
class FleetDriverPlans:
    """The plans of a pattern's hosts. ``run`` is absent where the pattern means no host today."""

    limit: str
    hosts: tuple[HostDriverPlan, ...] = ()
    run: remote.RunOutcome | None = None

    @property
    def exit_code(self) -> int:
        """0 if every host can have its driver, 1 if one is refused or unreachable, 3 if none answered."""
        if self.run is None:
            return 0
        refused = any(host.plan and host.plan["refusal"] for host in self.hosts)
        return self.run.exit_code or int(refused)

    def as_json(self) -> dict[str, Any]:
        """Return the stable shape (schema: ``drivers/data/plans.schema.json``)."""
        return {"limit": self.limit, "hosts": [host.as_json() for host in self.hosts]}


def plan_fleet_drivers(
    root: Path, limit: str, extra_vars: dict[str, Any], stream: TextIO
) -> FleetDriverPlans:
    """Read the facts of the hosts and plan for each; progress goes to the stream."""
    plan = plan_run(root, PLAY, limit)
    if not plan.hosts:
        return FleetDriverPlans(limit)
    run = remote.run_playbook(plan, extra_vars=extra_vars, stream=stream)
    driver_plans = {
        report["node"]: report["plan"] for report in run.reports if report.get("event") == "driver_plan"
    }
    hosts = tuple(
        HostDriverPlan(host.name, host.status, host.reason, driver_plans.get(host.name)) for host in run.hosts
    )
    return FleetDriverPlans(limit, hosts, run)


def format_fleet_driver_plans(plans: FleetDriverPlans, *, sources: bool = False) -> str:
    """Return the table of plans, and below it the hosts that gave none."""
    if plans.run is None:
        return f"{plans.limit} has no hosts: nothing to plan"
    driver_plans = {host.name: host.plan for host in plans.hosts if host.plan is not None}
    silent = [f"{host.name}: {host.status}: {host.reason}" for host in plans.hosts if host.plan is None]
    table = (
        report.format_driver_plans(
            driver_plans, lambda names: remote.fold_names_to_ranges(list(names)), show_sources=sources
        )
        if driver_plans
        else ""
    )
    return "\n".join(filter(None, [table, *silent]))
