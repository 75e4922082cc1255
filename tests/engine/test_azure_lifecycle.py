"""Test one Azure pool per kind of purchase with the real engine, from the first preview to destroy.

All pools are in one stack, so that each command runs once.
"""

from __future__ import annotations

import json

import pytest

from gpufleet.rehearsal.providers.store import ResourceStore
from stack_life import PRIVATE_ACCESS, format_settings, operations

pytestmark = pytest.mark.engine

STACK = "azure-purchases"
SUBSCRIPTION = "00000000-1111-2222-3333-444444444444"
MACHINE, SCALE_SET, RESERVATION = ":VirtualMachine", ":VirtualMachineScaleSet", ":CapacityReservation"
SMALL = {"machine": "Standard_NC4as_T4_v3", "count": 2}
LARGE = {"machine": "Standard_ND96amsr_A100_v4", "count": 2, "fabric": "infiniband"}
HELD = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/held/providers/Microsoft.Compute/capacityReservationGroups/x"
LADDER = {"ladder": [{"kind": "reserved", "reservation": HELD}, {"kind": "on_demand"}]}
POOLS = {
    "demand": {**SMALL, "purchase": {"kind": "on_demand"}, "template": "disks"},
    "committed": {**LARGE, "fabric": "none", "purchase": {"kind": "committed", "term": "1y"}},
    "spot": {**SMALL, "purchase": {"kind": "spot", "max_usd_per_hour": 0.5}},
    "reserved": {**SMALL, "zones": ["1", "3"], "purchase": {"kind": "reserved"}},
    "restored": {**SMALL, "purchase": {"kind": "spot", "on_eviction": "stop", "restore_minutes": 60}},
    "joined": {**LARGE, "purchase": {"kind": "spot"}},
    "group": {**SMALL, "count": 100, "group": True, "purchase": {"kind": "on_demand"}},
}
SINGLE = ("demand", "committed", "spot", "reserved")
GROUPS = ("restored", "joined", "group")
ELASTIC = {**SMALL, "count": {"min": 1, "desired": 2, "max": 4}, "purchase": {"kind": "spot"}}
CHANGES = {
    "demand": {"purchase": {"kind": "spot"}},
    "spot": {"purchase": {"kind": "on_demand"}},
    "reserved": {"machine": "Standard_NC8as_T4_v3"},
    "group": {"purchase": {"kind": "spot"}},
}


def build_settings(pools):
    spec = {"azure": {"subscription": SUBSCRIPTION}}
    return format_settings("azure", "eastus", {**pools, "elastic": ELASTIC}, PRIVATE_ACCESS, spec=spec)


def list_simulated_resources(rehearsal, *kinds):
    store = ResourceStore(rehearsal.providers / "azure-native.sqlite")
    rows = store.find_resources_by_type(*(f"azure-native:{kind}" for kind in kinds))
    store.close()
    return rows


def evict(rehearsal, name):
    """Delete a machine as Azure does at an eviction: outside the engine."""
    [row] = [r for r in list_simulated_resources(rehearsal, "compute:VirtualMachine") if name in r.id]
    store = ResourceStore(rehearsal.providers / "azure-native.sqlite")
    with store.transaction():
        store.delete_resource("azure-native:compute:VirtualMachine", row.id)
    store.close()


@pytest.fixture(scope="module")
def lifecycle(engine_project, rehearse_stack):
    """Return what each command of the stack's life did."""
    settings = engine_project / "stacks" / f"Pulumi.{STACK}.yaml"
    settings.write_text(build_settings(POOLS))
    shell = rehearse_stack(STACK)
    record = {"first": shell.preview()}
    shell.up()
    record["outputs"] = json.loads(shell.run(f"pulumi stack output -s {STACK} --json").stdout)
    evict(shell.rehearsal, "spot-2")
    shell.run(f"pulumi refresh -s {STACK} --yes --skip-preview")
    more = {name: {**pool, "count": pool["count"] + 1} for name, pool in POOLS.items()}
    shell.settings.write_text(build_settings(more))
    record["evicted_and_grown"] = shell.preview()
    shell.up()
    record["unchanged"] = shell.preview()
    changed = {**more, **{name: {**more[name], **change} for name, change in CHANGES.items()}}
    shell.settings.write_text(build_settings(changed))
    record["changed"] = shell.preview()
    shell.up()
    record["state"] = shell.state()
    shell.run(f"pulumi destroy -s {STACK} --yes --skip-preview")
    kinds = ("compute:VirtualMachine", "compute:CapacityReservation", "network:NetworkInterface")
    record["left"] = [*shell.state(), *list_simulated_resources(shell.rehearsal, *kinds)]
    yield record
    settings.unlink()


def test_first_preview_creates_every_node_and_scale_set(lifecycle):
    steps = lifecycle["first"]
    assert {step.op for step in steps} == {"create"}
    assert set(operations(steps, MACHINE)) == {f"{pool}-{number}" for pool in SINGLE for number in (1, 2)}
    assert set(operations(steps, SCALE_SET)) == {*GROUPS, "elastic"}
    assert set(operations(steps, RESERVATION)) == {"reserved-nc4as-t4-v3-1", "reserved-nc4as-t4-v3-3"}


def test_outputs_have_nodes_groups_and_the_way_in(lifecycle):
    outputs = lifecycle["outputs"]
    assert len(outputs["nodes"]) == 2 * len(SINGLE)
    assert {(node["public_address"], node["access"]) for node in outputs["nodes"]} == {(None, "bastion")}
    assert {group["pool"] for group in outputs["groups"]} == {*GROUPS, "elastic"}


def test_everything_is_in_the_subscription_of_the_spec(lifecycle):
    ids = [group["id"] for group in lifecycle["outputs"]["groups"]]
    ids += [node["resource_id"] for node in lifecycle["outputs"]["nodes"]]
    assert len(ids) > 10
    assert [each for each in ids if not each.startswith(f"/subscriptions/{SUBSCRIPTION}/")] == []


def test_eviction_and_growth_touch_only_the_missing_nodes(lifecycle):
    steps = lifecycle["evicted_and_grown"]
    machines = {name: op for name, op in operations(steps, MACHINE).items() if op != "same"}
    assert machines == {"spot-2": "create", **{f"{pool}-3": "create" for pool in SINGLE}}
    assert operations(steps, ":NetworkInterface")["spot-2"] == "same"  # with the address that it had
    others = {step.urn.split("::")[-2].rpartition(":")[2] for step in steps if step.op == "update"}
    assert others <= {"VirtualMachineScaleSet", "CapacityReservation", "Stack", "AzurePool"}
    assert not [step for step in steps if step.op in ("replace", "delete")]


def test_second_preview_has_no_change(lifecycle):
    assert {step.op for step in lifecycle["unchanged"]} == {"same"}


def test_changed_purchase_replaces_the_nodes_of_its_pools_only(lifecycle):
    """Azure cannot change the priority of a machine or a scale set; the provider alone would try."""
    steps = lifecycle["changed"]
    machines, scale_sets = operations(steps, MACHINE), operations(steps, SCALE_SET)
    assert {machines[f"{pool}-{n}"] for pool in ("demand", "spot") for n in (1, 2, 3)} == {"replace"}
    assert {machines[f"committed-{number}"] for number in (1, 2, 3)} == {"same"}
    assert scale_sets == {"restored": "same", "joined": "same", "elastic": "same", "group": "replace"}
    assert set(operations(steps, ":NetworkInterface").values()) <= {"same", "update"}  # tags


def test_another_size_gets_its_reservation_before_the_old_one_goes(lifecycle):
    steps = lifecycle["changed"]
    assert operations(steps, RESERVATION) == {
        "reserved-nc8as-t4-v3-1": "create",
        "reserved-nc8as-t4-v3-3": "create",
        "reserved-nc4as-t4-v3-1": "delete",
        "reserved-nc4as-t4-v3-3": "delete",
    }
    assert operations(steps, MACHINE)["reserved-1"] == "update"
    sizes = {
        resource.inputs["sku"]["name"]
        for resource in lifecycle["state"]
        if resource.type.endswith(RESERVATION)
    }
    assert sizes == {"Standard_NC8as_T4_v3"}


def test_destroy_leaves_nothing(lifecycle):
    assert lifecycle["left"] == []
