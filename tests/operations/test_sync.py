from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gpufleet import fleet
from gpufleet.errors import CheckFailed
from gpufleet.nodes import Registry
from gpufleet.operations.sync import SyncOptions, register_declared_racks, sync_registry_from_sources

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
