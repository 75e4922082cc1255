"""Test driver plans of a host pattern: reported plans, unreachable hosts and the exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpufleet import remote
from gpufleet.drivers import HostFacts, RequestedSoftware, plan_drivers
from gpufleet.operations import driver_plans
from gpufleet.remote import HostProgress, RunOutcome

SYSTEM = {"id": "debian", "version_id": "12"}


def driver_plan(device):
    pci = [{"vendor": "10de", "device": device, "class": "030200"}] if device else []
    facts = {"pci": pci, "os": SYSTEM, "kernel": "6.1.0-50-amd64", "arch": "x86_64"}
    return plan_drivers(HostFacts.from_json(facts), RequestedSoftware()).as_json()


@pytest.fixture
def plan_hosts(monkeypatch):
    """Plan for hosts as a run would have reported them: name -> a card's id, or None for a silent host."""

    def run(hosts):
        reports = [
            {"event": "driver_plan", "node": name, "plan": driver_plan(device)}
            for name, device in hosts.items()
            if device is not None
        ]
        progress = [
            HostProgress(
                name,
                status="ok" if device is not None else "unreachable",
                reason="" if device is not None else "no route",
            )
            for name, device in hosts.items()
        ]
        reports.append({"event": "commissioned", "node": "other"})
        outcome = RunOutcome(
            "1", "plan", Path(), tuple(progress), tuple(reports), (), interrupted=False, completed=True
        )
        run_plan = remote.RunPlan(Path(), "plan", "all", tuple(hosts), ())
        monkeypatch.setattr(remote, "plan_playbook_run", lambda *_: run_plan)
        monkeypatch.setattr(remote, "run_playbook", lambda *_, **__: outcome)
        return driver_plans.plan_fleet_drivers(Path(), "all", {}, None)

    return run


def test_plans_are_reported_by_host(plan_hosts):
    plans = plan_hosts({"a": "1eb8", "b": ""})
    assert plans.exit_code == 0
    plans_by_host = {host["name"]: host for host in plans.as_json()["hosts"]}
    assert plans_by_host["a"]["plan"]["action"] == "install"
    assert plans_by_host["b"]["plan"]["action"] == "none"


def test_refused_plan_exits_with_1(plan_hosts):
    plans = plan_hosts({"a": "1eb8", "b": "fffe"})
    assert plans.exit_code == 1
    assert "unknown card: PCI id 10de:fffe" in driver_plans.format_fleet_driver_plans(plans)


def test_unreachable_host_is_reported_with_its_reason(plan_hosts):
    plans = plan_hosts({"a": "1eb8", "b": None})
    assert plans.exit_code == 1
    assert driver_plans.format_fleet_driver_plans(plans).splitlines()[-1] == "b: unreachable: no route"
    assert {host["name"]: host["plan"] is None for host in plans.as_json()["hosts"]} == {
        "a": False,
        "b": True,
    }


def test_only_unreachable_hosts_exit_with_3(plan_hosts):
    plans = plan_hosts({"a": None, "b": None})
    assert plans.exit_code == 3
    assert (
        driver_plans.format_fleet_driver_plans(plans) == "a: unreachable: no route\nb: unreachable: no route"
    )


def test_run_without_hosts_plans_nothing(plan_hosts):
    plans = plan_hosts({})
    assert plans.exit_code == 0
    assert driver_plans.format_fleet_driver_plans(plans) == "all has no hosts: nothing to plan"
