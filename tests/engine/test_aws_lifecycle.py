"""Test one AWS pool per kind of purchase with the real engine, from the first preview to destroy.

All pools are in one stack, so that each command runs once.
"""

from __future__ import annotations

import json

import pytest

from gpufleet.rehearsal import Rehearsal
from gpufleet.rehearsal.providers.fault_injection import add_cloud_fault, clear_faults, preempt
from gpufleet.rehearsal.providers.members import list_group_members, list_remaining_resources
from stack_life import format_settings, operations

pytestmark = pytest.mark.engine

STACK = "aws-purchases"
INSTANCE, GROUP = "aws:ec2/instance:Instance", "aws:autoscaling/group:Group"
BLOCK = {"kind": "capacity_block", "reservation": "cr-0123456789abcdef0"}
HELD = {"kind": "reserved", "reservation": "cr-0fedcba9876543210"}
ROLE = "arn:aws:iam::444455556666:role/gpufleet"
SMALL = {"machine": "g5.2xlarge", "zones": ["us-east-1a"], "count": 2}
LARGE = {"machine": "p4d.24xlarge", "zones": ["us-east-1a"], "count": 2, "fabric": "efa"}
POOLS = {
    "demand": {**SMALL, "purchase": {"kind": "on_demand"}, "template": "disks"},
    "away": {**SMALL, "purchase": {"kind": "on_demand"}, "account": "batch"},
    "committed": {**SMALL, "purchase": {"kind": "committed", "term": "1y"}},
    "reserved": {**LARGE, "purchase": {"kind": "reserved", "reservation": "create"}},
    "held": {**LARGE, "purchase": HELD},
    "block": {**LARGE, "purchase": BLOCK},
    "spot": {
        **SMALL,
        "count": 4,
        "purchase": {"kind": "spot", "machines": ["g5.4xlarge"], "max_usd_per_hour": 1.0},
    },
    "fallback": {**SMALL, "purchase": {"kind": "spot", "fallback": "on_demand"}},
    "group": {**SMALL, "count": 10, "group": True, "purchase": {"kind": "on_demand"}},
    "ladder": {
        **LARGE,
        "machine": "p4de.24xlarge",
        "purchase": {"ladder": [BLOCK, HELD, {"kind": "spot"}, {"kind": "on_demand"}]},
    },
}
SINGLE = ("demand", "away", "committed", "reserved", "held", "block")
CHANGED_PURCHASES = {
    "committed": {"kind": "on_demand"},
    "held": BLOCK,
    "spot": {"kind": "on_demand"},
    "group": {"kind": "spot"},
}


def build_settings(pools):
    ssh, config = {"allowed_cidrs": ["10.0.0.0/8"]}, {"aws:region": "us-east-1"}
    spec = {"accounts": {"batch": {"aws": {"role_arn": ROLE}}}}
    return format_settings("aws", "us-east-1", pools, ssh, spec=spec, config=config)


# What the cloud lacks from the start: the pools with another rung, or another machine, come up all the same.
STOCK_OUTS = [
    {"zone": "us-east-1a", "machine": "g5.2xlarge", "purchase": "spot"},
    {"zone": "us-east-1a", "machine": "p4de.24xlarge", "purchase": "capacity_block"},
    {"zone": "us-east-1a", "machine": "p4de.24xlarge", "purchase": "reserved"},
]


def members_of(home, pool):
    """Return the machines in the groups of a pool, by id."""
    prefix = f"{STACK}-{pool}"
    found = list_group_members(STACK, home)
    return {
        member["id"]: member
        for member in found
        if member["group"] == prefix or prefix + "-" in member["group"]
    }


@pytest.fixture(scope="module")
def lifecycle(engine_project, build_shell):
    """Return what each command of the stack's life did."""
    settings = engine_project / "stacks" / f"Pulumi.{STACK}.yaml"
    settings.write_text(build_settings(POOLS))
    rehearsal = Rehearsal(engine_project, STACK)
    rehearsal.set_up(lambda _line: None)
    shell = build_shell(rehearsal)
    record = {"first": shell.preview()}
    for fault in STOCK_OUTS:
        add_cloud_fault(rehearsal.home, "aws", {"kind": "stock-out", "count": 1, **fault})
    add_cloud_fault(
        rehearsal.home,
        "aws",
        {"kind": "fail-after", "zone": "", "machine": "", "purchase": "", "count": 30},
    )
    failed = shell.run(f"pulumi up -s {STACK} --yes --skip-preview", fails=True)
    record["failed"] = failed.stdout
    clear_faults(rehearsal.home, "aws")
    for fault in STOCK_OUTS:
        add_cloud_fault(rehearsal.home, "aws", {"kind": "stock-out", "count": 1, **fault})
    shell.up()
    record["members"] = {pool: members_of(rehearsal.home, pool) for pool in POOLS}
    clear_faults(rehearsal.home, "aws")
    preempt(rehearsal.home, "aws", min(record["members"]["spot"]))
    record["after_preemption"] = members_of(rehearsal.home, "spot")
    outputs = shell.run(f"pulumi stack output -s {STACK} --json").stdout
    record["outputs"] = json.loads(outputs)
    record["unchanged"] = shell.preview()
    more = {name: {**pool, "count": pool["count"] + 1} for name, pool in POOLS.items()}
    changed = {**more, **{name: {**more[name], "purchase": new} for name, new in CHANGED_PURCHASES.items()}}
    shell.settings.write_text(build_settings(changed))
    record["changed"] = shell.preview()
    shell.up()
    record["changed_state"] = shell.state()
    shell.run(f"pulumi destroy -s {STACK} --yes --skip-preview")
    record["left"] = [*shell.state(), *list_remaining_resources(rehearsal.home)]
    rehearsal.tear_down(lambda _line: None)
    settings.unlink()
    return record


def test_first_preview_creates_every_node_and_group(lifecycle):
    steps = lifecycle["first"]
    assert {step.op for step in steps} == {"create"}
    assert set(operations(steps, INSTANCE)) == {f"{pool}-{number}" for pool in SINGLE for number in (1, 2)}
    assert len(operations(steps, GROUP)) == 8  # spot, group, two of the fallback, four of the ladder


def test_up_after_a_failure_half_way_converges(lifecycle):
    assert "InternalError" in lifecycle["failed"]
    assert {step.op for step in lifecycle["unchanged"]} == {"same"}


def test_stock_out_of_spot_starts_the_fallback(lifecycle):
    purchases = [member["purchase"] for member in lifecycle["members"]["fallback"].values()]
    assert purchases == ["on_demand"] * 2


def test_stock_out_of_one_machine_starts_the_other(lifecycle):
    machines = [member["machine"] for member in lifecycle["members"]["spot"].values()]
    assert machines == ["g5.4xlarge"] * 4


def test_ladder_goes_past_every_rung_without_capacity(lifecycle):
    members = lifecycle["members"]["ladder"].values()
    assert [member["purchase"] for member in members] == ["spot"] * 2
    assert {member["group"] for member in members} == {f"{STACK}-ladder-standby2"}


def test_preemption_of_one_of_four_nodes_replaces_one(lifecycle):
    before, after = set(lifecycle["members"]["spot"]), set(lifecycle["after_preemption"])
    assert (len(before & after), len(after - before)) == (3, 1)


def test_outputs_have_nodes_groups_and_fabric(lifecycle):
    outputs = lifecycle["outputs"]
    assert len(outputs["nodes"]) == 12
    assert {group["pool"] for group in outputs["groups"]} == set(POOLS) - set(SINGLE)
    assert {fabric["pool"] for fabric in outputs["fabric"]} == {"reserved", "held", "block", "ladder"}
    assert all(node["access"] == "ssm" for node in outputs["nodes"] if node["machine"] == "p4d.24xlarge")


def test_second_preview_has_no_change(lifecycle):
    assert {step.op for step in lifecycle["unchanged"]} == {"same"}


def test_more_nodes_touch_no_running_one(lifecycle):
    same_purchase = set(SINGLE) - set(CHANGED_PURCHASES)
    instances = operations(lifecycle["changed"], INSTANCE)
    for pool in same_purchase:
        assert [instances[f"{pool}-{number}"] for number in (1, 2, 3)] == ["same", "same", "create"]
    groups = operations(lifecycle["changed"], GROUP)
    # An update of the number alone: a group's nodes are not Pulumi's.
    assert {groups[name] for name in groups if name.startswith(("fallback", "ladder"))} == {"update"}
    assert len(same_purchase) == 4


def test_finding_8_changed_purchase_makes_new_nodes(lifecycle):
    steps = lifecycle["changed"]
    instances, groups = operations(steps, INSTANCE), operations(steps, GROUP)
    assert [instances[f"held-{number}"] for number in (1, 2)] == ["replace"] * 2
    assert instances["spot-1"] == "create"
    assert groups["spot"] == "delete"
    assert groups["group"] == "replace"
    # A commitment is only a bill: the nodes under it are on-demand ones already.
    assert [instances[f"committed-{number}"] for number in (1, 2)] == ["update"] * 2
    assert {instances[f"{pool}-1"] for pool in ("demand", "reserved", "block")} == {"same"}


def test_changes_arrive_in_the_state(lifecycle):
    state = {resource.name: resource for resource in lifecycle["changed_state"] if resource.type == INSTANCE}
    assert state["held-1"].inputs["instanceMarketOptions"] == {"marketType": "capacity-block"}
    assert "spot-3" in state


def test_pool_of_another_account_has_its_provider_and_network(lifecycle):
    state = {resource.name: resource for resource in lifecycle["changed_state"] if "$aws:" in resource.urn}
    providers = {r.name: r for r in lifecycle["changed_state"] if r.type == "pulumi:providers:aws"}
    role = providers["batch-aws-us-east-1"]
    assert json.loads(role.inputs["assumeRoles"]) == [{"roleArn": ROLE}]
    of_role = {name for name, resource in state.items() if resource.provider.startswith(role.urn)}
    assert {"away-1", "away-3", "batch-aws-us-east-1"} <= of_role
    assert of_role.isdisjoint({"demand-1", "aws-us-east-1"})


def test_destroy_leaves_nothing(lifecycle):
    assert lifecycle["left"] == []
