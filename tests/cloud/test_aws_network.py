"""Test the network of AWS pools: the way out, private access, and tags on everything."""

from __future__ import annotations

import json
from datetime import date

import pytest

from gpufleet.cloud.aws_network import SSM_POLICY

GPU = {"cloud": "aws", "machine": "g5.2xlarge"}
PRIVATE = {
    "authorized_keys": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICnjZVo0X23w6Lv+MS0nX7ZSNB6ZUf6PUl3b3SBAbmnn a"]
}
PRIVATE |= {"access": "private"}
UNTAGGED = {  # AWS takes no tags for these
    "RouteTableAssociation",
    "RolePolicyAttachment",
    "VolumeAttachment",
    "VpcEndpointRouteTableAssociation",
    "Policy",
}


def test_public_nodes_wait_for_the_route_to_the_gateway(evaluate):
    """Otherwise the first boot has no network, and destroy cannot detach the gateway."""
    (options,) = evaluate(GPU).list_options("Instance")
    assert "aws:ec2/routeTableAssociation:RouteTableAssociation aws-us-east-1-a" in options["depends_on"]


@pytest.mark.parametrize("group", [False, True])
def test_private_access_gives_no_public_address_and_a_role_for_session_manager(evaluate, group):
    evaluated = evaluate({**GPU, "group": group}, ssh=PRIVATE)
    if group:
        template = evaluated.find_resource("LaunchTemplate")
        assert "associatePublicIpAddress" not in template["networkInterfaces"][0]
        assert template["iamInstanceProfile"] == {"name": "gpufleet-test-aws-us-east-1"}
    else:
        assert evaluated.find_resource("Instance")["associatePublicIpAddress"] is False
        assert evaluated.find_resource("Instance")["iamInstanceProfile"] == "gpufleet-test-aws-us-east-1"
    assert evaluated.find_resource("RolePolicyAttachment")["policyArn"] == SSM_POLICY
    trust = json.loads(evaluated.find_resource("Role")["assumeRolePolicy"])
    assert trust["Statement"][0]["Principal"] == {"Service": "ec2.amazonaws.com"}


def test_private_zones_have_a_gateway_each_and_one_endpoint_to_s3(evaluate):
    pool = {**GPU, "count": 2, "zones": ["us-east-1a", "us-east-1c"]}
    evaluated = evaluate(pool, ssh=PRIVATE)
    assert len(evaluated.list_resources("NatGateway")) == len(evaluated.list_resources("Eip")) == 2
    endpoint = evaluated.find_resource("VpcEndpoint")
    assert (endpoint["serviceName"], endpoint["vpcEndpointType"]) == ("com.amazonaws.us-east-1.s3", "Gateway")
    assert len(evaluated.list_resources("VpcEndpointRouteTableAssociation")) == 2
    private = [subnet["cidrBlock"] for subnet in evaluated.list_resources("Subnet")]
    assert private == ["10.64.0.0/20", "10.64.128.0/20", "10.64.32.0/20", "10.64.160.0/20"]


def test_public_pools_have_no_gateway_role_or_endpoint_to_pay_for(evaluate):
    assert not {"NatGateway", "Eip", "Role", "VpcEndpoint"} & evaluate(GPU).kinds


def test_private_nodes_are_never_addressed_publicly(evaluate):
    evaluated = evaluate(GPU, cidrs=["8.8.8.0/24"], ssh={**PRIVATE, "allowed_cidrs": ["8.8.8.0/24"]})
    (node,) = evaluated.nodes
    assert (node["address"], node["public_address"], node["access"]) == ("10.64.0.7", None, "ssm")


@pytest.mark.parametrize("group", [False, True])
def test_every_resource_has_owner_and_expiry(evaluate, group):
    templates = {"plain": {"volumes": [{"name": "data", "size_gib": 500, "kind": "ssd"}]}}
    evaluated = evaluate(
        {"cloud": "aws", "count": 2, "fabric": "efa", "group": group, "purchase": {"kind": "reserved"}},
        templates=templates,
        expires=date(2027, 1, 31),
    )
    aws = [resource for resource in evaluated.recorder.resources if resource.typ.startswith("aws:")]
    assert len(aws) > 15
    for resource in aws:
        if resource.typ.rpartition(":")[2] in UNTAGGED:
            continue
        tags = resource.inputs["tags"]
        values = {tag["key"]: tag["value"] for tag in tags} if isinstance(tags, list) else tags
        assert values["gpufleet-owner"] == "research", resource.typ
        assert values["gpufleet-expires"] == "2027-01-31", resource.typ


def test_launch_template_tags_instances_volumes_and_interfaces(evaluate):
    template = evaluate({**GPU, "group": True}).find_resource("LaunchTemplate")
    kinds = {item["resourceType"]: item["tags"] for item in template["tagSpecifications"]}
    assert set(kinds) == {"instance", "volume", "network-interface"}
    assert all(tags["gpufleet-pool"] == "train" for tags in kinds.values())
