"""Test one AWS pool per kind of purchase with the real engine, from the first preview to destroy.

All pools are in one stack, so that each command runs once.
"""

from __future__ import annotations

import json

import pytest

from gpufleet.rehearsal import Rehearsal

pytestmark = pytest.mark.engine

STACK = "aws-purchases"
INSTANCE, GROUP = "aws:ec2/instance:Instance", "aws:autoscaling/group:Group"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICnjZVo0X23w6Lv+MS0nX7ZSNB6ZUf6PUl3b3SBAbmnn test"
BLOCK = {"kind": "capacity_block", "reservation": "cr-0123456789abcdef0"}
HELD = {"kind": "reserved", "reservation": "cr-0fedcba9876543210"}
SMALL = {"machine": "g5.2xlarge", "zones": ["us-east-1a"], "count": 2}
LARGE = {"machine": "p4d.24xlarge", "zones": ["us-east-1a"], "count": 2, "fabric": "efa"}
POOLS = {
    "demand": {**SMALL, "purchase": {"kind": "on_demand"}, "template": "disks"},
    "committed": {**SMALL, "purchase": {"kind": "committed", "term": "1y"}},
    "reserved": {**LARGE, "purchase": {"kind": "reserved", "reservation": "create"}},
    "held": {**LARGE, "purchase": HELD},
    "block": {**LARGE, "purchase": BLOCK},
    "spot": {**SMALL, "purchase": {"kind": "spot", "machines": ["g5.4xlarge"], "max_usd_per_hour": 1.0}},
    "fallback": {**SMALL, "purchase": {"kind": "spot", "fallback": "on_demand"}},
    "group": {**SMALL, "count": 100, "group": True, "purchase": {"kind": "on_demand"}},
    "ladder": {**LARGE, "purchase": {"ladder": [BLOCK, HELD, {"kind": "spot"}, {"kind": "on_demand"}]}},
}
SINGLE = ("demand", "committed", "reserved", "held", "block")
CHANGED_PURCHASES = {
    "committed": {"kind": "on_demand"},
    "held": BLOCK,
    "spot": {"kind": "on_demand"},
    "group": {"kind": "spot"},
}


def build_settings(pools):
    spec = {
        "owner": "research",
        "expires": "2027-01-31",
        "ssh": {"authorized_keys": [KEY], "allowed_cidrs": ["10.0.0.0/8"]},
        "pools": [
            {"name": name, "cloud": "aws", "region": "us-east-1", **pool} for name, pool in pools.items()
        ],
        "templates": {"disks": {"volumes": [{"name": "data", "size_gib": 500, "kind": "ssd"}]}},
    }
    return json.dumps({"config": {"gpufleet:fleet": spec, "aws:region": "us-east-1"}})  # JSON is YAML


def operations(steps, kind):
    """Return the operation on each resource of a type, by its name."""
    return {step.urn.split("::")[-1]: step.op for step in steps if step.urn.split("::")[-2].endswith(kind)}


@pytest.fixture(scope="module")
def lifecycle(engine_project, build_shell):
    """Return what each command of the stack's life did."""
    settings = engine_project / "stacks" / f"Pulumi.{STACK}.yaml"
    settings.write_text(build_settings(POOLS))
    rehearsal = Rehearsal(engine_project, STACK)
    rehearsal.set_up(lambda _line: None)
    shell = build_shell(rehearsal)
    record = {"first": shell.preview()}
    shell.up()
    outputs = shell.run(f"pulumi stack output -s {STACK} --json").stdout
    record["outputs"] = json.loads(outputs)
    record["unchanged"] = shell.preview()
    more = {name: {**pool, "count": pool["count"] + 1} for name, pool in POOLS.items()}
    shell.settings.write_text(build_settings(more))
    record["grown"] = shell.preview()
    changed = {**more, **{name: {**more[name], "purchase": new} for name, new in CHANGED_PURCHASES.items()}}
    shell.settings.write_text(build_settings(changed))
    record["changed"] = shell.preview()
    shell.up()
    record["changed_state"] = shell.state()
    shell.run(f"pulumi destroy -s {STACK} --yes --skip-preview")
    record["left"] = shell.state()
    rehearsal.tear_down(lambda _line: None)
    settings.unlink()
    return record


def test_first_preview_creates_every_node_and_group(lifecycle):
    steps = lifecycle["first"]
    assert {step.op for step in steps} == {"create"}
    assert set(operations(steps, INSTANCE)) == {f"{pool}-{number}" for pool in SINGLE for number in (1, 2)}
    assert len(operations(steps, GROUP)) == 8  # spot, group, two of the fallback, four of the ladder


def test_outputs_have_nodes_groups_and_fabric(lifecycle):
    outputs = lifecycle["outputs"]
    assert len(outputs["nodes"]) == 10
    assert {group["pool"] for group in outputs["groups"]} == set(POOLS) - set(SINGLE)
    assert {fabric["pool"] for fabric in outputs["fabric"]} == {"reserved", "held", "block", "ladder"}
    assert all(node["access"] == "ssm" for node in outputs["nodes"] if node["machine"] == "p4d.24xlarge")


def test_second_preview_has_no_change(lifecycle):
    assert {step.op for step in lifecycle["unchanged"]} == {"same"}


def test_more_nodes_touch_no_running_one(lifecycle):
    operation = operations(lifecycle["grown"], INSTANCE)
    assert {name: op for name, op in operation.items() if op != "same"} == {
        f"{pool}-3": "create" for pool in SINGLE
    }
    groups = operations(lifecycle["grown"], GROUP)
    assert set(groups.values()) == {"update"}  # of the number alone: a group's nodes are not Pulumi's
    assert "replace" not in {step.op for step in lifecycle["grown"]}


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


def test_destroy_leaves_nothing(lifecycle):
    assert lifecycle["left"] == []
