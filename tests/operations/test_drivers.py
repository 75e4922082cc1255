"""Test drivers in the registry: reports of plays, and the result of `gpufleet nodes drivers`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner

from gpufleet.nodes import NodeIdentity, NodeObservation, Registry
from gpufleet.operations import driver_consistency, ingest
from gpufleet.operations.task_events import build_task_event

START = datetime(2026, 11, 21, tzinfo=UTC)
WELL = {"installed": "580.95.05", "loaded": "580.95.05", "user_space": "580.95.05", "held": ["nvidia-open"]}


@pytest.fixture
def registry(tmp_path):
    with Registry(f"sqlite:///{tmp_path}/registry.db") as registry:
        for slot, name in enumerate(("gpu01", "gpu02", "cpu01"), start=1):
            cards = [{"model": "H100 SXM5 80GB", "count": 8}] if name.startswith("gpu") else []
            declared = {"kind": "gpu_server", "template": "train", "accelerators": cards}
            place = NodeIdentity(rack="r1", slot=str(slot))
            registry.apply_observation(
                NodeObservation("rack:r1", name, place, declared=declared, observed_at=START)
            )
        yield registry


def record_drivers(registry, node, event, minutes=1, **facts):
    at = START + timedelta(minutes=minutes)
    result = {"gpufleet": {"node": node, "event": event, "facts": facts}}
    action = "gpufleet.fleet.driver_state" if event == "drivers" else "gpufleet.fleet.report"
    ingest.ingest_events(registry, [build_task_event(node, "ok", result, action=action, at=at)])


def build_report(registry):
    drivers = registry.list_newest_values(driver_consistency.OBSERVED_KEY)
    return driver_consistency.consistency.check_driver_consistency(
        driver_consistency.build_host_driver_state(node, drivers.get(node.id))
        for node in registry.list_nodes()
    )


def test_reported_drivers_are_compared(registry):
    record_drivers(registry, "gpu01", "drivers", **WELL)
    record_drivers(registry, "gpu02", "drivers", **{**WELL, "loaded": "570.172.08"})
    drivers_report = build_report(registry)
    assert [host.name for host in drivers_report.hosts] == ["gpu01", "gpu02"]
    assert [(finding.host, finding.code) for finding in drivers_report.findings] == [
        ("gpu02", "loaded_differs")
    ]
    assert driver_consistency.format_consistency_lines(drivers_report)[-2:] == [
        "1 of 2 nodes do not agree",
        "hint: gpufleet configure --play reboot",
    ]


def test_newest_report_is_used(registry):
    for minutes, loaded in ((1, "570.172.08"), (2, "580.95.05")):
        record_drivers(registry, "gpu01", "drivers", minutes, **{**WELL, "loaded": loaded})
    record_drivers(registry, "gpu02", "drivers", **WELL)
    assert not build_report(registry).has_skew_finding
    assert driver_consistency.format_consistency_lines(build_report(registry))[-1] == "all 2 nodes agree"


def test_nodes_without_driver_facts_are_reported(registry):
    last_line = driver_consistency.format_consistency_lines(build_report(registry))[-1]
    assert last_line == "no driver was read yet: gpufleet configure --play driver_check (2 nodes)"
    record_drivers(registry, "gpu01", "drivers", **WELL)
    last_line = driver_consistency.format_consistency_lines(build_report(registry))[-1]
    assert last_line == "all 1 nodes agree; 1 were never read: gpufleet configure --play driver_check"


def test_driver_failure_is_in_the_history_and_prevents_a_healthy_verdict(registry):
    record_drivers(registry, "gpu01", "drivers_failed", task="Exact versions", reason="no space left")
    assert [
        line.reason for line in registry.list_node_history("gpu01") if line.event == "drivers_failed"
    ] == [
        (
            "Exact versions: no space left; "
            "next: free space on the host (df -h; du -xhd1 /), then gpufleet configure --limit gpu01"
        )
    ]
    observed = {value.key: value.value for value in registry.list_node_values("gpu01")}
    assert observed["observed.configured"] is False


@pytest.mark.parametrize(("loaded", "code"), [("580.95.05", 0), ("570.172.08", 1)])
def test_exit_code_reports_a_difference(registry, monkeypatch, loaded, code):
    from gpufleet.cli.nodes import nodes_command

    for node in ("gpu01", "gpu02"):
        record_drivers(registry, node, "drivers", **{**WELL, "loaded": loaded})
    monkeypatch.setattr(driver_consistency, "compare_registered_drivers", lambda: build_report(registry))
    result = CliRunner().invoke(nodes_command, ["drivers"])
    assert result.exit_code == code
    assert "gpu01" in result.output
    assert "cpu01" not in result.output
