"""From a fleet to components, names, tags and facts."""

from __future__ import annotations

import itertools

import pytest

from gpufleet import catalog, fleet
from gpufleet.cloud import PoolPlan
from gpufleet.cloud.aws_network import AwsNetwork  # noqa: F401 - that every cloud's module imports
from gpufleet.cloud.gcp_network import subnet_block
from gpufleet.errors import InputError

NODE = {"aws": "Instance", "gcp": "Instance", "azure": "VirtualMachine"}
PUBLIC = {"aws": "203.0.113.7", "gcp": "198.51.100.7", "azure": None}


@pytest.mark.parametrize("cloud", NODE)
def test_a_fixed_count_is_one_resource_per_node(evaluate, cloud):
    found = evaluate({"cloud": cloud, "count": 3, "fabric": "none"})
    tags = [node.get("tags") if cloud != "gcp" else node["labels"] for node in found.all(NODE[cloud])]
    assert [each["gpufleet-node"] for each in tags] == ["test-train-1", "test-train-2", "test-train-3"]


@pytest.mark.parametrize("cloud", NODE)
def test_every_node_carries_the_tags_that_others_read(evaluate, cloud):
    pool = {"cloud": cloud, "hours_per_month": 160, "purchase": {"kind": "spot"}}
    node = evaluate(pool).one(NODE[cloud])
    tags = node["labels"] if cloud == "gcp" else node["tags"]
    assert (
        tags.items()
        >= {
            "gpufleet-stack": "test",
            "gpufleet-pool": "train",
            "gpufleet-owner": "research",
            "gpufleet-node": "test-train-1",
            "gpufleet-purchase": "spot",
            "gpufleet-hours-per-month": "160",
            "gpufleet-template": "plain",
        }.items()
    )


@pytest.mark.parametrize("cloud", NODE)
def test_facts_name_the_node_and_where_it_is(evaluate, cloud):
    (fact,) = evaluate({"cloud": cloud}).nodes
    assert (fact["name"], fact["pool"], fact["cloud"]) == ("test-train-1", "train", cloud)
    assert fact["private_address"].endswith(".7")
    assert fact["public_address"] == PUBLIC[cloud]


def test_ssh_goes_by_the_public_address_only_where_somebody_comes_from_outside(evaluate):
    inside = evaluate({"cloud": "aws"}, cidrs=["10.0.0.0/8"])
    outside = evaluate({"cloud": "aws"}, cidrs=["10.0.0.0/8", "8.8.8.0/24"])
    assert inside.nodes[0]["address"] == "10.64.0.7"
    assert outside.nodes[0]["address"] == "203.0.113.7"


def test_members_of_an_aws_group_are_looked_up(evaluate):
    purchase = {"kind": "spot", "fallback": "on_demand"}
    nodes = evaluate({"cloud": "aws", "machine": "g5.2xlarge", "purchase": purchase}).nodes
    assert [(node["id"], node["purchase"]) for node in nodes] == [
        ("i-0123456789", "spot"),
        ("i-0123456789", "on_demand"),
    ]


def test_every_aws_resource_says_its_region(evaluate):
    for found in evaluate(
        {"cloud": "aws", "region": "us-west-2", "zones": ["us-west-2b"]}
    ).recorder.resources:
        if found.typ.startswith("aws:"):
            assert found.inputs["region"] == "us-west-2"


def test_without_zones_a_pool_goes_where_its_machine_is_offered(evaluate):
    found = evaluate({"cloud": "aws", "zones": []})
    assert found.one("Subnet")["availabilityZone"] == "us-east-1b"


def test_an_evaluation_without_an_engine_gets_no_answers_and_goes_on(evaluate):
    found = evaluate({"cloud": "aws", "zones": []}, {"cloud": "gcp", "name": "serve"}, answers={})
    assert found.all("Subnet")[0]["availabilityZone"] == "us-east-1a"
    assert len(found.all("Instance")) == 2


def test_a_machine_that_is_offered_nowhere_is_refused(evaluate):
    nowhere = {"aws:ec2/getInstanceTypeOfferings:getInstanceTypeOfferings": {"locations": []}}
    with pytest.raises(InputError, match=r"AWS offers no p4d.24xlarge in us-east-1"):
        evaluate({"cloud": "aws", "zones": []}, answers=nowhere)


def test_a_gcp_node_needs_a_zone(evaluate):
    with pytest.raises(InputError, match=r"pools\[train\].zones: .* zones: \[us-central1-a\]"):
        evaluate({"cloud": "gcp", "zones": []})


def test_accelerators_are_attached_to_n1_alone(evaluate):
    small = {"cloud": "gcp", "machine": "n1-standard-8", "accelerators": {"model": "T4", "count": 2}}
    assert evaluate(small).one("Instance")["guestAccelerators"] == [{"type": "nvidia-tesla-t4", "count": 2}]
    assert "guestAccelerators" not in evaluate({"cloud": "gcp"}).one("Instance")


def test_nodes_take_the_zones_in_turn(evaluate):
    zones = ["us-central1-a", "us-central1-b"]
    found = evaluate({"cloud": "gcp", "count": 3, "zones": zones})
    assert [node["zone"] for node in found.all("Instance")] == [zones[0], zones[1], zones[0]]


def test_no_two_gcp_regions_share_a_subnet_range():
    blocks = [subnet_block(region) for region in catalog.regions("gcp")]
    assert len(blocks) > 10
    assert all(one != other for one, other in itertools.combinations(blocks, 2))


def test_stack_names_become_labels(declare):
    plan = PoolPlan(
        declare({"cloud": "gcp"}).model_copy(update={"stack": "Team/Prod_1"}),
        declare({"cloud": "gcp"}).pools[0],
    )
    assert plan.prefix == "team-prod-1-train"


@pytest.mark.parametrize("stack", ["poc", "dev", "production"])
def test_the_shipped_stacks_evaluate(evaluate, repo_root, stack):
    whole = fleet.load(stack, repo_root)
    found = evaluate(whole=whole)
    assert len(found.all("Rack")) == len(whole.racks)
    assert {node["pool"] for node in found.nodes} == {pool.name for pool in whole.pools}


def test_a_rack_carries_what_it_costs(evaluate, repo_root):
    rack = evaluate(whole=fleet.load("production", repo_root)).all("Rack")[1]
    assert (rack["name"], rack["nodes"]) == ("blades-1", 20)
    assert rack["usd_per_hour"] > 0
    assert rack["usd_per_hour_source"]
