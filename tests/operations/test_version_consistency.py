"""Test `gpufleet nodes versions` and what the play network_mesh leaves in the registry."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner

from gpufleet.cli.nodes import nodes_command
from gpufleet.nodes import NodeIdentity, NodeObservation, Registry, latest_values_by_key
from gpufleet.operations.ingest import ingest_events
from gpufleet.operations.task_events import TaskEvent


def store_versions(registry, slot, kernel, machine="h100"):
    """Register a node and store a burn-in record with its versions."""
    name = f"gpu{slot:02}"
    place = NodeIdentity(rack="servers-1", slot=str(slot))
    declared = {"kind": "gpu_server", "machine": machine, "template": "train"}
    registry.apply_observation(NodeObservation("rack:servers-1", name, place, declared=declared))
    attempt = registry.start_attempt(name, "burn_in", f"attempt-{name}")
    records = [{"type": "check", "name": "versions", "status": "ran", "raw": {"parts": {"kernel": [kernel]}}}]
    report = {"attempt": attempt, "node": name, "profile": "quick", "verdict": "incomplete", "started_at": None,
              "ended_at": None, "checks": []}  # fmt: skip
    registry.record_burn_in_result(name, attempt, report, records, reason="test")


@pytest.fixture
def versions_registry(tmp_path, monkeypatch):
    """Give an empty registry that the commands use."""
    url = f"sqlite:///{tmp_path}/registry.db"
    monkeypatch.setenv("GPUFLEET_DATABASE_URL", url)
    monkeypatch.delenv("GPUFLEET_REHEARSAL", raising=False)
    with Registry(url) as opened:
        yield opened


def run_command(*arguments):
    return CliRunner().invoke(nodes_command, ["versions", *arguments])


def test_node_that_differs_from_its_equals_is_named(versions_registry):
    for slot, kernel in enumerate(["6.8.0-90", "6.8.0-90", "6.8.0-31"], 1):
        store_versions(versions_registry, slot, kernel)
    store_versions(versions_registry, 4, "6.1", machine="a100")
    result = run_command()
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "1 of 4 nodes differ",
        "gpu03            kernel: 6.8.0-31; 2 of 3 have 6.8.0-90 (h100, train)",
    ]
    assert json.loads(run_command("--json").stdout)["findings"][0]["node"] == "gpu03"


def test_equal_nodes_agree(versions_registry):
    store_versions(versions_registry, 1, "6.8")
    store_versions(versions_registry, 2, "6.8")
    result = run_command()
    assert (result.exit_code, result.stdout) == (
        0,
        "all 2 nodes agree with the nodes of their machine type and template\n",
    )


def test_fleet_without_records_is_told_what_to_run(versions_registry):
    assert run_command().stdout == "no node has a record of its versions yet: gpufleet burnin run NODE\n"


def test_report_of_the_mesh_is_stored_and_changes_no_state(versions_registry):
    store_versions(versions_registry, 1, "6.8")
    before = versions_registry.get_node("gpu01").state
    facts = {"outcome": "fail", "sent_mbit": 940.0, "pairs": 7}
    report = {
        "node": "gpu01",
        "event": "network_mesh",
        "facts": {"facts": facts, "reasons": ["sends 940 Mbit/s"]},
    }
    event = TaskEvent(
        run="r1",
        host="gpu01",
        at=datetime.now(UTC),
        started_at=datetime.now(UTC),
        outcome="ok",
        report=report,
    )
    summary = ingest_events(versions_registry, [event])
    values = latest_values_by_key(versions_registry.list_node_values("gpu01"))
    assert summary.bad == []
    assert values["observed.network_mesh"]["outcome"] == "fail"
    assert values["observed.network_mesh_reasons"] == ["sends 940 Mbit/s"]
    assert versions_registry.get_node("gpu01").state == before
