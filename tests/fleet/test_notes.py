from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from gpufleet import catalog, fleet
from gpufleet.nodes.cloud_api.account import find_azure_subscription, find_gcp_project

CREATE = {"kind": "reserved", "reservation": "create"}


def find_note(declared, start):
    (note,) = [each for each in fleet.list_planning_notes(declared) if each.startswith(start)]
    return note


def test_notes_of_production_contain_the_affordable_hours(repo_root):
    production = fleet.load_fleet("production", repo_root)
    # 21.957642 + 20.97283 = 42.930472 USD/h * 730 h; with 29.25568 of spot: 72.186152 USD/h
    assert "train, tune, 31,339 USD a month" in find_note(production, "reserved capacity and commitments")
    hours = find_note(production, "the pools cost")
    assert "72.19 USD an hour together" in hours
    assert "2,000 to 5,000 USD a month" in hours
    assert hours.endswith("buy 28 to 69 hours, not a month")
    assert find_note(production, "spot nodes").endswith("has no spot capacity: serve")


def test_azure_pool_without_a_subscription_is_noted(repo_root):
    note = find_note(fleet.load_fleet("production", repo_root), "azure.subscription")
    assert note.startswith("azure.subscription is missing: `pulumi up` refuses tune unless azure-native:")


@pytest.mark.parametrize("account", [None, "gpu-nodes@my-project.iam.gserviceaccount.com"])
def test_elastic_google_pool_without_an_identity_is_noted(repo_root, account):
    declared = fleet.load_fleet("dev", repo_root)
    (serve,) = [pool for pool in declared.pools if pool.cloud == "gcp"]
    elastic = serve.model_copy(update={"count": serve.count.model_validate({"min": 1, "max": 3})})
    gcp = declared.model_validate(
        {**declared.model_dump(), "gcp": {"project": "my-project", "service_account": account}}
    ).gcp
    changed = declared.model_copy(update={"pools": (elastic,), "gcp": gcp})
    notes = [note for note in fleet.list_planning_notes(changed) if note.startswith("nothing scales serve")]
    assert len(notes) == (account is None)


@pytest.mark.parametrize(("today", "noted"), [(date(2026, 12, 31), False), (date(2027, 1, 1), True)])
def test_stack_that_has_expired_is_noted_and_not_refused(repo_root, today, noted):
    """The day itself still counts, as for a sweep. Refused, the spec could not even be destroyed in order."""
    declared = fleet.load_fleet("poc", repo_root).model_copy(update={"expires": date(2026, 12, 31)})
    notes = fleet.list_planning_notes(declared, today)
    assert [note.startswith("the stack expired on 2026-12-31: a sweep") for note in notes] == [True] * noted


def test_facts_that_nobody_states_are_noted(parse_pool, monkeypatch):
    monkeypatch.setattr(catalog, "get_machine_facts", lambda *_: None)
    note = find_note(parse_pool(), "not checked")
    assert note.endswith("whether it is sold as on_demand (p4d.24xlarge of train)")


def test_coming_retirement_is_noted(parse_pool, monkeypatch):
    facts = replace(catalog.get_machine_facts("p4d.24xlarge", "aws"), retires=date(2027, 3, 1))
    monkeypatch.setattr(catalog, "get_machine_facts", lambda *_: facts)
    assert find_note(parse_pool(), "machines that").endswith("p4d.24xlarge on 2027-03-01")


def test_stack_without_reservations_has_no_notes(repo_root):
    assert fleet.list_planning_notes(fleet.load_fleet("poc", repo_root)) == ()


def test_layout_of_drives_that_no_node_has_is_noted(spec, tmp_path):
    spec["templates"]["trainer"] = {"hardware": {"storage": {"layout": "raid0"}}}
    place = {"cloud": "azure", "region": "eastus", "machine": "Standard_NC4as_T4_v3", "zones": []}
    spec["pools"] = [
        {**spec["pools"][0], "template": "trainer"},
        {**spec["pools"][0], **place, "name": "tune", "template": "trainer", "count": 1},
    ]
    note = find_note(fleet.parse_fleet(spec, stack="test", root=tmp_path), "hardware.storage")
    assert note == "hardware.storage has no effect without local drives: Standard_NC4as_T4_v3 of tune"


def test_pool_without_a_price_is_named(parse_pool):
    reserved = find_note(parse_pool(purchase=CREATE | {"term": "1y"}), "reserved")
    assert "train, 0 USD a month (without train, whose price is not in the catalogue)" in reserved


def test_node_price_includes_attached_cards(parse_pool):
    place = {"cloud": "gcp", "region": "us-central1", "zones": ["us-central1-a"]}
    declared = parse_pool(**place, machine="n1-standard-8", accelerators={"model": "T4", "count": 2})
    assert fleet.pool_node_usd_per_hour(declared.pools[0]) == pytest.approx(0.379998 + 2 * 0.35, abs=1e-5)


def test_node_without_a_price_has_none(parse_pool):
    assert fleet.pool_node_usd_per_hour(parse_pool(purchase=CREATE | {"term": "3y"}).pools[0]) is None


def test_accounts_that_the_stack_file_names_for_the_providers_count(repo_root, tmp_path):
    text = (repo_root / "stacks/Pulumi.production.yaml").read_text()
    head = (
        "config:\n  azure-native:subscriptionId: 11111111-2222-3333-4444-555555555555\n  gcp:project: lab\n"
    )
    stack_file = tmp_path / "Pulumi.production.yaml"
    stack_file.write_text(text.replace("config:\n", head, 1))
    declared = fleet.load_fleet("production", repo_root, stack_file)
    assert [note for note in fleet.list_planning_notes(declared) if "azure.subscription" in note] == []
    assert find_azure_subscription(declared, {}) == "11111111-2222-3333-4444-555555555555"
    assert find_gcp_project(declared, {}) == "lab"

    secret = head.replace("11111111-2222-3333-4444-555555555555", "{secure: AAABAD}")
    stack_file.write_text(text.replace("config:\n", secret, 1))
    unreadable = fleet.load_fleet("production", repo_root, stack_file)
    assert find_azure_subscription(unreadable, {"ARM_SUBSCRIPTION_ID": "other"}) == "other"


def test_offering_that_nobody_states_is_noted(parse_pool):
    a4 = {"cloud": "gcp", "region": "us-central1", "zones": ["us-central1-b"], "machine": "a4-highgpu-8g"}
    note = find_note(parse_pool(**a4, purchase={"kind": "spot"}), "not checked")
    assert note.endswith("whether it is sold in us-central1 (a4-highgpu-8g of train)")
    g2 = {**a4, "region": "asia-east1", "zones": ["asia-east1-a"], "machine": "g2-standard-8"}
    note = find_note(parse_pool(**g2), "not checked")
    assert note.endswith("whether it is sold in asia-east1-a (g2-standard-8 of train)")
