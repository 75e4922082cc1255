"""Test faults of the simulated clouds with the real engine: shortage, preemption, a failure half-way, destroy.

All pools are in one stack, so that each command runs once.
"""

from __future__ import annotations

import json
from collections import Counter

import pytest

from gpufleet.rehearsal import Rehearsal
from gpufleet.rehearsal.providers.members import list_group_members, list_remaining_resources

pytestmark = pytest.mark.engine

STACK = "cloud-faults"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICnjZVo0X23w6Lv+MS0nX7ZSNB6ZUf6PUl3b3SBAbmnn test"
GCP_NODE = "gcp:compute/instance:Instance"
POOLS = [
    {
        "name": "train",
        "cloud": "aws",
        "region": "us-east-1",
        "zones": ["us-east-1a", "us-east-1b"],
        "machine": "g5.2xlarge",
        "count": 4,
        "purchase": {"kind": "spot", "fallback": "on_demand"},
    },
    {
        "name": "serve",
        "cloud": "gcp",
        "region": "us-central1",
        "zones": ["us-central1-a"],
        "machine": "g2-standard-4",
        "count": 4,
        "purchase": {"kind": "spot", "on_eviction": "delete"},
    },
    {
        "name": "tune",
        "cloud": "azure",
        "region": "eastus",
        "machine": "Standard_NC4as_T4_v3",
        "count": 1,
        "purchase": {"kind": "on_demand"},
    },
]
SPEC = {
    "owner": "research",
    "ssh": {"authorized_keys": [KEY], "allowed_cidrs": ["10.0.0.0/8"]},
    "pools": POOLS,
}
SETTINGS = {
    "gpufleet:fleet": SPEC,
    "aws:region": "us-east-1",
    "gcp:project": "my-project",
    "azure-native:subscriptionId": "00000000-1111-2222-3333-444444444444",
}


@pytest.fixture(scope="module")
def story(engine_project, build_shell):
    """Return what happened in each chapter of the stack's life."""
    settings = engine_project / "stacks" / f"Pulumi.{STACK}.yaml"
    settings.write_text(json.dumps({"config": SETTINGS}))  # JSON is YAML
    rehearsal = Rehearsal(engine_project, STACK)
    rehearsal.set_up(lambda _line: None)
    shell, home = build_shell(rehearsal), rehearsal.home

    def inject(text):
        return shell.run(f"gpufleet rehearse fault cloud {text} -s {STACK}").stdout

    def count_members():
        members = list_group_members(STACK, home)
        return Counter((member["zone"], member["purchase"]) for member in members)

    record = {}
    inject("stock-out --cloud aws --zone us-east-1a --purchase spot")
    inject("fail-after --cloud gcp --count 4")
    record["half-way"] = shell.run(f"pulumi up -s {STACK} --yes --skip-preview", fails=True).stdout
    record["left half-way"] = list_remaining_resources(home)
    record["faults"] = inject("list")
    inject("clear --cloud gcp")
    shell.up()
    record["unchanged"] = shell.preview()
    record["one zone short"] = count_members()
    inject("stock-out --cloud aws --purchase spot")
    for member in list_group_members(STACK, home):
        inject(f"preempt --cloud aws --node {member['id']}")
    record["no spot"] = count_members()
    inject("clear")
    record["spot again"] = count_members()
    record["preempted"] = inject(f"preempt --cloud gcp --node {STACK}-serve-2")
    shell.run(f"pulumi refresh -s {STACK} --yes --skip-preview")
    record["after preemption"] = shell.preview()
    shell.up()
    inject("stock-out --cloud azure")
    inject("throttle --cloud gcp --count 1")
    shell.run(f"pulumi destroy -s {STACK} --yes --skip-preview")
    record["left"] = list_remaining_resources(home), list_group_members(STACK, home), shell.state()
    rehearsal.tear_down(lambda _line: None)
    settings.unlink()
    return record


def test_failure_half_way_has_the_clouds_error_and_a_second_up_converges(story):
    assert "INTERNAL_ERROR" in story["half-way"]
    assert len([row for row in story["left half-way"] if row.type.startswith("gcp:")]) == 4
    assert "gcp: fail-after 0" in story["faults"]
    assert {step.op for step in story["unchanged"]} == {"same"}


def test_stock_out_in_the_first_zone_falls_to_the_second(story):
    assert story["one zone short"] == {("us-east-1b", "spot"): 4}


def test_stock_out_of_spot_falls_to_the_next_rung_and_back(story):
    assert {purchase: count for (_, purchase), count in story["no spot"].items()} != {}
    assert sum(count for (_, kind), count in story["no spot"].items() if kind == "on_demand") == 4
    assert sum(story["no spot"].values()) == 4
    assert sum(count for (_, kind), count in story["spot again"].items() if kind == "spot") == 4
    assert sum(story["spot again"].values()) == 4


def test_preemption_of_one_of_four_nodes_replaces_one(story):
    steps = {step.urn.split("::")[-1]: step.op for step in story["after preemption"] if GCP_NODE in step.urn}
    assert "is deleted" in story["preempted"]
    assert steps == {"serve-1": "same", "serve-2": "create", "serve-3": "same", "serve-4": "same"}


def test_destroy_after_faults_leaves_the_clouds_empty(story):
    assert story["left"] == ([], [], [])
