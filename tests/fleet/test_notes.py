from __future__ import annotations

import pytest

from gpufleet import fleet

CREATE = {"kind": "reserved", "reservation": "create"}


def test_notes_of_production_contain_the_affordable_hours(repo_root):
    reserved, hours, spot, disks, notes = fleet.list_planning_notes(fleet.load_fleet("production", repo_root))
    # 21.957642 + 20.97283 = 42.930472 USD/h * 730 h; with 29.25568 of spot: 72.186152 USD/h
    assert "train, tune, 31,339 USD a month" in reserved
    assert "72.19 USD an hour together" in hours
    assert "2,000 to 5,000 USD a month" in hours
    assert hours.endswith("buy 28 to 69 hours, not a month")
    assert spot.endswith("has no spot capacity: serve")
    assert disks.endswith("no cloud disk is built or priced for template llm-server, trainer")
    assert notes.endswith("not the profile of template llm-server, trainer")


def test_stack_without_reservations_has_no_notes(repo_root):
    assert fleet.list_planning_notes(fleet.load_fleet("poc", repo_root)) == ()


def test_volumes_without_cloud_disk_are_noted(repo_root):
    (disks,) = fleet.list_planning_notes(fleet.load_fleet("dev", repo_root))
    assert disks.startswith("volumes are folders")
    assert disks.endswith("template llm-server")


def test_pool_without_a_price_is_named(parse_pool):
    (reserved,) = fleet.list_planning_notes(parse_pool(purchase=CREATE | {"term": "1y"}))
    assert "train, 0 USD a month (without train, whose price is not in the catalogue)" in reserved


def test_node_price_includes_attached_cards(parse_pool):
    place = {"cloud": "gcp", "region": "us-central1", "zones": ["us-central1-a"]}
    declared = parse_pool(**place, machine="n1-standard-8", accelerators={"model": "T4", "count": 2})
    assert fleet.pool_node_usd_per_hour(declared.pools[0]) == pytest.approx(0.379998 + 2 * 0.35, abs=1e-5)


def test_node_without_a_price_has_none(parse_pool):
    assert fleet.pool_node_usd_per_hour(parse_pool(purchase=CREATE | {"term": "3y"}).pools[0]) is None
