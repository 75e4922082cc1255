"""Test the components, names, tags and node facts that a fleet becomes."""

from __future__ import annotations

import itertools

import pulumi
import pytest

from gpufleet import catalog, fleet
from gpufleet.cloud import PoolPlan
from gpufleet.cloud.aws_network import AwsNetwork  # noqa: F401 - checks that the module imports by itself
from gpufleet.cloud.gcp_network import subnet_cidr
from gpufleet.errors import InputError

NODE = {"aws": "Instance", "gcp": "Instance", "azure": "VirtualMachine"}
PUBLIC = {"aws": "203.0.113.7", "gcp": "198.51.100.7", "azure": None}


@pytest.mark.parametrize("cloud", NODE)
def test_fixed_count_declares_one_resource_per_node(evaluate, cloud):
    evaluated = evaluate({"cloud": cloud, "count": 3, "fabric": "none"})
    tags = [
        node.get("tags") if cloud != "gcp" else node["labels"]
        for node in evaluated.list_resources(NODE[cloud])
    ]
    assert [node_tags["gpufleet-node"] for node_tags in tags] == [
        "test-train-1",
        "test-train-2",
        "test-train-3",
    ]


@pytest.mark.parametrize("cloud", NODE)
def test_every_node_has_the_tags_for_cost_and_inventory(evaluate, cloud):
    pool = {"cloud": cloud, "hours_per_month": 160}
    node = evaluate(pool).find_resource(NODE[cloud])
    tags = node["labels"] if cloud == "gcp" else node["tags"]
    assert (
        tags.items()
        >= {
            "gpufleet-stack": "test",
            "gpufleet-pool": "train",
            "gpufleet-owner": "research",
            "gpufleet-node": "test-train-1",
            "gpufleet-purchase": "on_demand",
            "gpufleet-expires": "never",
            "gpufleet-hours-per-month": "160",
            "gpufleet-template": "plain",
        }.items()
    )


@pytest.mark.parametrize("cloud", NODE)
def test_node_facts_have_name_and_addresses(evaluate, cloud):
    (fact,) = evaluate({"cloud": cloud}).nodes
    assert (fact["name"], fact["pool"], fact["cloud"]) == ("test-train-1", "train", cloud)
    assert fact["private_address"].endswith(".7")
    assert fact["public_address"] == PUBLIC[cloud]


def test_ssh_uses_the_public_address_only_if_a_public_network_is_allowed(evaluate):
    private = evaluate({"cloud": "aws"}, cidrs=["10.0.0.0/8"])
    public = evaluate({"cloud": "aws"}, cidrs=["10.0.0.0/8", "8.8.8.0/24"])
    assert private.nodes[0]["address"] == "10.64.0.7"
    assert public.nodes[0]["address"] == "203.0.113.7"


def test_finding_7_groups_are_exported_and_no_member_is_looked_up_in_the_program(evaluate):
    """Members exist only after the program has run: a lookup in it finds those of the time before."""
    purchase = {"kind": "spot", "fallback": "on_demand"}
    evaluated = evaluate({"cloud": "aws", "machine": "g5.2xlarge", "purchase": purchase})
    assert evaluated.nodes == []
    assert [(group["name"], group["purchase"], group["kind"]) for group in evaluated.groups] == [
        ("test-train", "spot", "autoscaling_group"),
        ("test-train-standby", "on_demand", "autoscaling_group"),
    ]
    assert {group["ssh_user"] for group in evaluated.groups} == {"ubuntu"}
    assert not [call for call in evaluated.recorder.calls if call.token.endswith("getInstances")]


def test_every_aws_resource_has_its_region(evaluate):
    for resource in evaluate(
        {"cloud": "aws", "region": "us-west-2", "zones": ["us-west-2b"]}
    ).recorder.resources:
        if resource.typ.startswith("aws:"):
            assert resource.inputs["region"] == "us-west-2"


def test_pool_without_zones_uses_a_zone_that_offers_its_machine(evaluate):
    evaluated = evaluate({"cloud": "aws", "zones": []})
    assert evaluated.find_resource("Subnet")["availabilityZone"] == "us-east-1b"


def test_nodes_are_declared_without_replies_from_cloud_lookups(evaluate):
    evaluated = evaluate({"cloud": "aws", "zones": []}, {"cloud": "gcp", "name": "serve"}, replies={})
    assert evaluated.list_resources("Subnet")[0]["availabilityZone"] == "us-east-1a"
    assert len(evaluated.list_resources("Instance")) == 2


def test_machine_without_any_zone_offering_is_refused(evaluate):
    no_offering = {"aws:ec2/getInstanceTypeOfferings:getInstanceTypeOfferings": {"locations": []}}
    with pytest.raises(InputError, match=r"AWS does not offer p4d.24xlarge in us-east-1"):
        evaluate({"cloud": "aws", "zones": []}, replies=no_offering)


def test_gcp_node_needs_a_zone(evaluate):
    with pytest.raises(
        InputError, match=r"zones is \[\], but a Google node needs a zone .* zones: \[us-central1-a\]"
    ):
        evaluate({"cloud": "gcp", "zones": []})


def test_accelerators_are_attached_only_to_n1(evaluate):
    n1 = {"cloud": "gcp", "machine": "n1-standard-8", "accelerators": {"model": "T4", "count": 2}}
    assert evaluate(n1).find_resource("Instance")["guestAccelerators"] == [
        {"type": "nvidia-tesla-t4", "count": 2}
    ]
    assert "guestAccelerators" not in evaluate({"cloud": "gcp"}).find_resource("Instance")


def test_nodes_use_the_zones_in_turn(evaluate):
    zones = ["us-central1-a", "us-central1-b"]
    evaluated = evaluate({"cloud": "gcp", "count": 3, "zones": zones})
    assert [node["zone"] for node in evaluated.list_resources("Instance")] == [zones[0], zones[1], zones[0]]


def test_no_two_gcp_regions_share_a_subnet_range():
    cidrs = [subnet_cidr(region) for region in catalog.list_accelerator_regions("gcp")]
    assert len(cidrs) > 10
    assert all(first != second for first, second in itertools.combinations(cidrs, 2))


def test_stack_name_is_converted_to_label_characters(declare):
    plan = PoolPlan(
        declare({"cloud": "gcp"}).model_copy(update={"stack": "Team/Prod_1"}),
        declare({"cloud": "gcp"}).pools[0],
    )
    assert plan.node_name_prefix == "team-prod-1-train"


@pytest.mark.parametrize("stack", ["poc", "dev", "production"])
def test_shipped_stacks_can_be_evaluated(evaluate, repo_root, stack):
    shipped = fleet.load_fleet(stack, repo_root)
    evaluated = evaluate(fleet=shipped)
    assert len(evaluated.list_resources("Rack")) == len(shipped.racks)
    pools = {facts["pool"] for facts in [*evaluated.nodes, *evaluated.groups]}
    assert pools == {pool.name for pool in shipped.pools}


def test_rack_component_has_its_cost(evaluate, repo_root):
    rack = evaluate(fleet=fleet.load_fleet("production", repo_root)).list_resources("Rack")[1]
    assert (rack["name"], rack["nodes"]) == ("blades-1", 20)
    assert rack["usd_per_hour"] > 0
    assert rack["usd_per_hour_source"]


def test_expired_stack_warns_the_person_who_builds_it(evaluate, monkeypatch):
    warnings = []
    monkeypatch.setattr(pulumi.log, "warn", warnings.append)
    evaluate({"cloud": "azure"}, expires="2020-01-31")
    evaluate({"cloud": "azure"}, expires="2999-01-31")
    assert [text.split(":")[0] for text in warnings] == ["the stack expired on 2020-01-31"]
