from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gpufleet import fleet
from gpufleet.errors import CheckFailed
from gpufleet.nodes import Registry
from gpufleet.nodes.inventory import build_ansible_inventory
from gpufleet.operations import starter_project
from gpufleet.operations.sync import (
    SyncOptions,
    load_declared_fleet,
    register_declared_racks,
    sync_registry_from_sources,
)

STATE = Path(__file__).parents[1] / "cases/nodes/state-production.json"
QUIET = {"PATH": "/nonexistent"}


@pytest.fixture
def empty_registry(tmp_path):
    """Give a registry with nothing in it."""
    with Registry(f"sqlite:///{tmp_path / 'empty.db'}") as opened:
        yield opened


@pytest.fixture
def production(repo_root):
    """Return the declared production fleet."""
    return fleet.load_fleet("production", repo_root)


def test_every_source_is_registered(empty_registry, repo_root, production):
    synced = sync_registry_from_sources(
        empty_registry, repo_root, production, SyncOptions(state_file=STATE, environment=QUIET)
    )
    assert [(outcome.source, outcome.node_count) for outcome in synced.outcomes] == [
        ("rack:blades-1", 20), ("rack:bench-1", 1), ("pulumi:production", 3),
    ]  # fmt: skip
    assert {node.state for node in empty_registry.list_nodes()} == {"expected", "discovered"}
    synced.raise_if_incomplete()


def write_own_program(folder, racks):
    """Write a Pulumi project of somebody's own with the parts of ``gpufleet init --into-existing``."""
    (folder / "src").mkdir(parents=True)
    (folder / "Pulumi.yaml").write_text("name: web\nruntime: python\nmain: src\n")
    (folder / "src/__main__.py").write_text("import gpu_pools\n")
    (folder / "Pulumi.production.yaml").write_text("config: {gcp:project: web-1234}\n")
    starter_project.write_starter_project(
        folder, ("aws",), starter_project.parse_racks(racks), into_existing=True
    )


@pytest.mark.parametrize("exported", [[], "a name", [{"id": "i-1"}, "x", 3]])
def test_nodes_of_an_own_program_are_registered_from_its_state(empty_registry, tmp_path, exported):
    state = json.loads(STATE.read_text())
    stack = state["deployment"]["resources"][0]
    nodes = stack["outputs"]["nodes"]
    member = nodes[0] | {"id": "i-0", "name": "production-train-2"}
    pool = stack | {"urn": stack["urn"].replace("pulumi:pulumi:Stack", "gpufleet:cloud:GpuPool")}
    pool |= {"type": "gpufleet:cloud:GpuPool", "outputs": {"nodes": [*nodes, member], "groups": []}}
    stack["outputs"] = {"nodes": exported}
    state["deployment"]["resources"].append(pool)
    (tmp_path / "state.json").write_text(json.dumps(state))
    root = tmp_path / "web"
    write_own_program(root, "blades:2")
    declared = load_declared_fleet("production", root)
    assert (declared.pools, declared.provider_project) == ((), "web-1234")
    options = SyncOptions(state_file=tmp_path / "state.json", environment=QUIET)
    synced = sync_registry_from_sources(empty_registry, root, declared, options)
    assert synced.failures == {}
    assert [(outcome.source, outcome.node_count) for outcome in synced.outcomes] == [
        ("rack:blades", 2), ("pulumi:production", 4),
    ]  # fmt: skip
    trained = empty_registry.get_node("production-train-1")
    assert (trained.address, trained.stack) == ("10.64.13.223", "production")
    assert empty_registry.get_node("production-train-2").machine == "p4d.24xlarge"
    assert empty_registry.get_node("blade01").stack is None
    inventory = build_ansible_inventory(root, f"sqlite:///{tmp_path / 'empty.db'}")
    assert {"production-train-1", "blade02"} <= {host.name for host in inventory.hosts}


def test_state_of_an_own_program_that_cannot_be_read_is_a_failed_source(empty_registry, tmp_path):
    write_own_program(tmp_path / "web", "blades:2")
    declared = load_declared_fleet("production", tmp_path / "web")
    options = SyncOptions(state_file=tmp_path / "none.json", environment=QUIET)
    synced = sync_registry_from_sources(empty_registry, tmp_path / "web", declared, options)
    assert list(synced.failures) == ["pulumi:production"]
    assert {node.name for node in empty_registry.list_nodes()} == {"blade01", "blade02"}


def test_second_sync_changes_nothing(empty_registry, repo_root, production):
    options = SyncOptions(state_file=STATE, environment=QUIET)
    sync_registry_from_sources(empty_registry, repo_root, production, options)
    before = [(node.id, node.name, node.state) for node in empty_registry.list_nodes()]
    second_result = sync_registry_from_sources(empty_registry, repo_root, production, options)
    assert [outcome.created for outcome in second_result.outcomes] == [[], [], []]
    assert [(node.id, node.name, node.state) for node in empty_registry.list_nodes()] == before


def test_failing_source_does_not_affect_others(empty_registry, repo_root, production, tmp_path):
    sync_registry_from_sources(
        empty_registry, repo_root, production, SyncOptions(state_file=STATE, environment=QUIET)
    )
    broken = SyncOptions(state_file=tmp_path / "none.json", environment=QUIET)
    synced = sync_registry_from_sources(empty_registry, repo_root, production, broken)
    assert list(synced.failures) == ["pulumi:production"]
    assert not any(node.is_missing for node in empty_registry.list_nodes())
    with pytest.raises(CheckFailed, match="pulumi:production"):
        synced.raise_if_incomplete()
    (status,) = [
        source for source in empty_registry.list_source_statuses() if source.name == "pulumi:production"
    ]
    assert "none.json" in status.failure


@pytest.mark.parametrize("text", ["{", "[]", '{"deployment": null}'])
def test_invalid_state_file_fails_only_its_source(empty_registry, repo_root, production, tmp_path, text):
    bad = tmp_path / "state.json"
    bad.write_text(text)
    synced = sync_registry_from_sources(
        empty_registry, repo_root, production, SyncOptions(state_file=bad, environment=QUIET)
    )
    assert list(synced.failures) == ["pulumi:production"]
    assert len(empty_registry.list_nodes()) == 21


def test_address_book_overrides_declared_addresses(empty_registry, repo_root, production, tmp_path):
    book = tmp_path / "addresses.json"
    book.write_text(json.dumps({"blades-1/7": "198.18.1.17", "nowhere/1": "198.18.9.1"}))
    options = SyncOptions(state_file=STATE, environment={**QUIET, "GPUFLEET_ADDRESS_BOOK": str(book)})
    synced = sync_registry_from_sources(empty_registry, repo_root, production, options)
    assert empty_registry.get_node("blade07").address == "198.18.1.17"
    assert empty_registry.get_node("blade08").address == "10.20.1.18"
    assert any("nowhere/1" in note for note in synced.notes)


def test_rehearsal_without_racks_has_no_address_book(empty_registry, repo_root, production, tmp_path):
    environment = {**QUIET, "GPUFLEET_ADDRESS_BOOK": str(tmp_path / "none.json")}
    synced = sync_registry_from_sources(
        empty_registry, repo_root, production, SyncOptions(state_file=STATE, environment=environment)
    )
    assert synced.failures == {}


def test_fleet_without_clouds_needs_no_engine(empty_registry, repo_root):
    synced = sync_registry_from_sources(
        empty_registry, repo_root, fleet.load_fleet("poc", repo_root), SyncOptions(environment=QUIET)
    )
    assert synced.failures == {}
    assert {node.kind for node in empty_registry.list_nodes()} == {"compute_blade", "workstation"}


def test_rack_cost_is_divided_by_its_blades(empty_registry, repo_root, production):
    sync_registry_from_sources(
        empty_registry, repo_root, production, SyncOptions(state_file=STATE, environment=QUIET)
    )
    rack = production.racks[0].rack
    total = sum(node.usd_per_hour for node in empty_registry.list_nodes() if node.rack == "blades-1")
    assert total == pytest.approx(rack.usd_per_hour)


def test_probe_contacts_only_booted_hosts_in_a_rehearsal(
    empty_registry, repo_root, production, monkeypatch, tmp_path
):
    from gpufleet import remote

    probed = []

    def simulated_probe(addresses, **_login):
        probed.extend(addresses)
        return {address: remote.UnreachableHost(address, "timeout", "timed out") for address in addresses}

    monkeypatch.setattr(remote, "probe_hosts", simulated_probe)
    book = tmp_path / "addresses.json"
    book.write_text(json.dumps({"blades-1/1": "198.18.1.11", "blades-1/2": "198.18.1.12"}))
    environment = {**QUIET, "GPUFLEET_REHEARSAL": "production", "GPUFLEET_HOME": str(tmp_path)}
    options = SyncOptions(state_file=STATE, probe=True, environment=environment, address_book=book)
    synced = sync_registry_from_sources(empty_registry, repo_root, production, options)
    assert sorted(probed) == ["198.18.1.11", "198.18.1.12"]
    assert set(synced.reach.unreachable) == {"blade01", "blade02"}
    assert empty_registry.get_node("production-train-1").reachable is None
    assert empty_registry.get_node("blade01").reachable_detail == "timeout: timed out"


def test_responding_node_is_discovered(empty_registry, repo_root, monkeypatch):
    from gpufleet import remote

    facts = remote.parse_probe_answer(
        "=== gpufleet arch\naarch64\n=== gpufleet device_tree_serial\n10000000a1b2c3d4\n"
    )
    simulated = lambda addresses, **_: {next(iter(addresses)): remote.ReachableHost("10.20.3.11", facts)}  # noqa: E731 - a fake
    monkeypatch.setattr(remote, "probe_hosts", simulated)
    sync_registry_from_sources(
        empty_registry,
        repo_root,
        fleet.load_fleet("poc", repo_root),
        SyncOptions(probe=True, environment=QUIET),
    )
    node = empty_registry.get_node("poc-blade01")
    assert (node.state, node.reachable, node.serial) == ("discovered", True, "10000000a1b2c3d4")


def test_only_the_racks_of_the_stack_are_registered(empty_registry, repo_root, production):
    """Racks that lie in inventory/ and belong to another stack stay out."""
    files = {path.stem for path in (repo_root / "inventory").glob("*.yaml")}
    named = {use.rack.name for use in production.racks}
    assert files - named  # there is a rack of another stack to leave out
    sync_registry_from_sources(
        empty_registry, repo_root, production, SyncOptions(state_file=STATE, environment=QUIET)
    )
    assert {node.rack for node in empty_registry.list_nodes() if node.rack} == named


@pytest.mark.parametrize(
    ("stack", "racks"), [("production", {"blades-1", "bench-1"}), ("poc", {"blades-poc"})]
)
def test_run_declares_the_racks_of_its_stack(empty_registry, repo_root, stack, racks):
    register_declared_racks(empty_registry, repo_root, stack, datetime(2026, 11, 21, tzinfo=UTC))
    assert {node.rack for node in empty_registry.list_nodes()} == racks
    assert {node.stack for node in empty_registry.list_nodes()} == {stack}


def test_run_without_a_stack_declares_every_rack_file(empty_registry, repo_root):
    register_declared_racks(empty_registry, repo_root, None, datetime(2026, 11, 21, tzinfo=UTC))
    assert {node.rack for node in empty_registry.list_nodes()} == {"blades-1", "bench-1", "blades-poc"}
