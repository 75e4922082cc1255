"""Test one GCP pool per kind of purchase with the real engine, from the first preview to destroy.

All pools are in one stack, so that each command runs once.
"""

from __future__ import annotations

import json
from collections import Counter

import pytest

from gpufleet.rehearsal.providers.members import list_group_members, list_remaining_resources
from stack_life import PRIVATE_ACCESS, format_settings, operations

pytestmark = pytest.mark.engine

STACK = "gcp-purchases"
INSTANCE, REQUEST = ":Instance", ":RegionResizeRequest"
GROUP = ":RegionInstanceGroupManager"
SMALL = {"machine": "g2-standard-4", "zones": ["us-central1-a"], "count": 2}
FABRIC = {**SMALL, "machine": "a3-highgpu-8g", "fabric": "auto"}
LADDER = {"ladder": [{"kind": "reserved", "reservation": "held"}, {"kind": "on_demand"}]}
POOLS = {
    "demand": {**SMALL, "purchase": {"kind": "on_demand"}, "template": "disks"},
    "committed": {**SMALL, "purchase": {"kind": "committed", "term": "1y"}},
    "spot": {**SMALL, "purchase": {"kind": "spot"}},
    "reserved": {**SMALL, "purchase": {"kind": "reserved"}},
    "ladder": {**SMALL, "purchase": LADDER},
    "flex": {**SMALL, "purchase": {"kind": "flex_start", "max_run_hours": 48}},
    "gang": {**FABRIC, "purchase": {"kind": "flex_start", "max_run_hours": 48}},
    "fabric": {**FABRIC, "purchase": {"kind": "spot"}},
    "machines": {**SMALL, "purchase": {"kind": "spot", "machines": ["g2-standard-8"]}},
    "group": {**SMALL, "count": 100, "group": True, "purchase": {"kind": "on_demand"}},
}
SINGLE = ("demand", "committed", "spot", "reserved", "ladder", "fabric")
GROUPS = ("flex", "gang", "machines", "group")
ELASTIC = {**SMALL, "count": {"min": 1, "desired": 2, "max": 4}, "purchase": {"kind": "on_demand"}}
CHANGED_PURCHASES = {
    "committed": {"kind": "on_demand"},
    "spot": {"kind": "on_demand"},
    "reserved": {"kind": "on_demand"},
    "ladder": {"kind": "on_demand"},
    "flex": {"kind": "on_demand"},
    "group": {"kind": "spot"},
}


def build_settings(pools):
    spec = {"gcp": {"project": "rehearsal-project"}}
    return format_settings("gcp", "us-central1", {**pools, "elastic": ELASTIC}, PRIVATE_ACCESS, spec=spec)


@pytest.fixture(scope="module")
def lifecycle(engine_project, rehearse_stack):
    """Return what each command of the stack's life did."""
    settings = engine_project / "stacks" / f"Pulumi.{STACK}.yaml"
    settings.write_text(build_settings(POOLS))
    shell = rehearse_stack(STACK)
    record = {"first": shell.preview()}
    shell.up()
    record["outputs"] = json.loads(shell.run(f"pulumi stack output -s {STACK} --json").stdout)
    record["members"] = list_group_members(STACK, shell.rehearsal.home)
    record["unchanged"] = shell.preview()
    more = {name: {**pool, "count": pool["count"] + 1} for name, pool in POOLS.items()}
    shell.settings.write_text(build_settings(more))
    record["grown"] = shell.preview()
    shell.up()
    changed = {**more, **{name: {**more[name], "purchase": new} for name, new in CHANGED_PURCHASES.items()}}
    shell.settings.write_text(build_settings(changed))
    record["changed"] = shell.preview()
    shell.up()
    record["state"] = shell.state()
    shell.run(f"pulumi destroy -s {STACK} --yes --skip-preview")
    record["left"] = [*shell.state(), *list_remaining_resources(shell.rehearsal.home)]
    yield record
    settings.unlink()


def test_first_preview_creates_every_node_and_group(lifecycle):
    steps = lifecycle["first"]
    assert {step.op for step in steps} == {"create"}
    assert set(operations(steps, INSTANCE)) == {f"{pool}-{number}" for pool in SINGLE for number in (1, 2)}
    assert set(operations(steps, GROUP)) == {*GROUPS, "elastic"}
    assert set(operations(steps, REQUEST)) == {"flex-1", "flex-2", "gang-1"}


def test_outputs_have_nodes_and_groups(lifecycle):
    outputs = lifecycle["outputs"]
    assert len(outputs["nodes"]) == 2 * len(SINGLE)
    assert {(node["public_address"], node["access"]) for node in outputs["nodes"]} == {(None, "iap")}
    assert {group["pool"] for group in outputs["groups"]} == {*GROUPS, "elastic"}


def test_groups_have_their_members(lifecycle):
    pools = {group["id"]: group["pool"] for group in lifecycle["outputs"]["groups"]}
    groups = {group["name"]: group["pool"] for group in lifecycle["outputs"]["groups"]} | pools
    members = Counter(
        groups.get(member["group"]) or groups[member["group"].rpartition("/")[2]]
        for member in lifecycle["members"]
    )
    assert members == {"flex": 2, "gang": 2, "machines": 2, "group": 100, "elastic": 2}


def test_second_preview_has_no_change(lifecycle):
    assert {step.op for step in lifecycle["unchanged"]} == {"same"}


def test_more_nodes_touch_no_running_one(lifecycle):
    steps = lifecycle["grown"]
    instances = operations(steps, INSTANCE)
    assert {name: op for name, op in instances.items() if op != "same"} == {
        f"{pool}-3": "create" for pool in SINGLE
    }
    requests, groups = operations(steps, REQUEST), operations(steps, GROUP)
    # Nodes that start all at once are one purchase: three of them are another one.
    assert (requests.pop("gang-1"), groups.pop("gang")) == ("replace", "replace")
    assert requests == {"flex-1": "same", "flex-2": "same", "flex-3": "create"}
    assert groups == {"flex": "same", "machines": "update", "group": "update", "elastic": "same"}
    assert {step.urn.split("::")[-1] for step in steps if step.op == "replace"} == {"gang", "gang-1"}


def test_changed_purchase_makes_new_nodes(lifecycle):
    steps = lifecycle["changed"]
    instances, groups = operations(steps, INSTANCE), operations(steps, GROUP)
    for pool in ("spot", "reserved"):
        assert [instances[f"{pool}-{number}"] for number in (1, 2, 3)] == ["replace"] * 3
    # A commitment is only a bill, and nodes of a ladder use any reservation: both are on-demand nodes already.
    for pool in ("committed", "ladder"):
        assert [instances[f"{pool}-{number}"] for number in (1, 2, 3)] == ["update"] * 3
    assert [instances[f"flex-{number}"] for number in (1, 2, 3)] == ["create"] * 3
    assert (groups["flex"], groups["group"], groups["machines"]) == ("delete", "replace", "same")
    assert {instances[f"demand-{number}"] for number in (1, 2, 3)} == {"same"}


def test_changes_arrive_in_the_state(lifecycle):
    state = {resource.name: resource for resource in lifecycle["state"] if resource.type.endswith(INSTANCE)}
    assert state["reserved-1"].inputs["reservationAffinity"] == {"type": "ANY_RESERVATION"}
    assert state["spot-1"].inputs["scheduling"]["provisioningModel"] == "STANDARD"
    assert not [resource for resource in lifecycle["state"] if resource.type.endswith(":Reservation")]


def test_destroy_leaves_nothing(lifecycle):
    assert lifecycle["left"] == []
