"""Test what a comparison with a bill takes from the registry, and the whole command with a registry."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime

import pytest

from gpufleet.cost.analysis.billed_node import OutOfUse
from gpufleet.nodes import NodeIdentity, NodeObservation, Registry, SourceReport
from gpufleet.operations.billed_nodes import list_registered_nodes

SINCE = datetime(2026, 9, 1, tzinfo=UTC)


def observe(name, instance_id, *, cloud="aws", pool="train", at=SINCE):
    values = {"kind": "cloud_vm", "cloud": cloud, "pool": pool, "stack": "dev"}
    return NodeObservation(
        "pulumi:dev", name, NodeIdentity(instance_id=instance_id), declared=values, observed_at=at
    )


@pytest.fixture
def registry(tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path}/registry.db"
    monkeypatch.setenv("GPUFLEET_DATABASE_URL", url)
    with Registry(url) as registry:
        registry.apply_observation(observe("dev-train-1", "i-0a"))
        yield registry


def test_node_has_its_pool_its_dates_and_its_id(registry, tmp_path):
    (node,) = list_registered_nodes(tmp_path)
    assert (node.name, node.cloud, node.pool, node.stack) == ("dev-train-1", "aws", "train", "dev")
    assert (node.instance_id, node.since, node.until, node.out_of_use) == ("i-0a", SINCE, None, ())


def test_times_out_of_use_are_those_of_the_history(registry, tmp_path):
    for state in ("discovered", "quarantined", "burn_in", "repair"):
        if state == "discovered" and registry.get_node("dev-train-1").state == state:
            continue
        registry.move_node("dev-train-1", state, "by hand")
    (node,) = list_registered_nodes(tmp_path)
    entries = {entry.new_state: entry.at for entry in registry.list_node_history("dev-train-1")}
    assert node.out_of_use == (
        OutOfUse("quarantined", entries["quarantined"], entries["burn_in"]),
        OutOfUse("repair", entries["repair"], None),
    )


def test_retired_node_and_lost_node_have_an_end(registry, tmp_path):
    registry.apply_observation(observe("dev-train-2", "i-0b"))
    registry.retire_node("dev-train-1", "sold")
    later = datetime(2026, 10, 5, tzinfo=UTC)
    registry.apply_source_report(SourceReport("pulumi:dev", later, []))
    retired, lost = list_registered_nodes(tmp_path)
    assert retired.until == registry.get_node(retired.id).state_since
    assert retired.out_of_use[-1].state == "retired"
    assert (lost.name, lost.until) == ("dev-train-2", later)


def test_nodes_of_racks_are_not_compared(registry, tmp_path):
    rack = NodeObservation(
        "rack:r1", "blade01", NodeIdentity(rack="r1", slot="1"), declared={"kind": "blade"}
    )
    registry.apply_observation(rack)
    assert [node.name for node in list_registered_nodes(tmp_path)] == ["dev-train-1"]


def test_project_without_a_registry_has_none(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUFLEET_DATABASE_URL", f"sqlite:///{tmp_path}/none.db")
    assert list_registered_nodes(tmp_path) is None
    assert not (tmp_path / "none.db").exists()


def test_command_joins_the_bill_with_the_registry(registry, gpufleet, project):
    env = {"GPUFLEET_DATABASE_URL": os.environ["GPUFLEET_DATABASE_URL"]}
    command = ("cost", "actual", "-s", "dev", "docs/examples/bill-focus.csv")
    result = gpufleet(*command, "--json", cwd=project, env=env)
    assert result.returncode == 0, result.stderr
    compared = json.loads(result.stdout)["registry"]
    assert [(each["name"], each["billed_usd"], each["hours"]) for each in compared["nodes"]] == [
        ("dev-train-1", 242.4, 200.0)
    ]
    text = gpufleet(*command, cwd=project, env=env).stdout
    assert "dev-train-1  train  discovered    200  $242.40" in text


def test_command_without_a_registry_says_how_to_get_one(gpufleet, project, tmp_path):
    env = {"GPUFLEET_DATABASE_URL": f"sqlite:///{tmp_path}/none.db"}
    result = gpufleet("cost", "actual", "-s", "dev", "docs/examples/bill-focus.csv", cwd=project, env=env)
    assert result.returncode == 0
    assert result.stderr.strip() == (
        "without a registry, nodes are not compared; hint: gpufleet nodes sync -s dev"
    )
