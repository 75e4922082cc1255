"""Test EFA on AWS: interfaces, security groups, placement, and the addresses of such nodes."""

from __future__ import annotations

import pytest

from gpufleet import catalog
from gpufleet.cloud.fabric_plan import NetworkInterface, plan_fabric

EFA = {"cloud": "aws", "count": 2, "fabric": "auto"}
SMALL_EFA = {"cloud": "aws", "machine": "g6.8xlarge", "count": 2, "fabric": "efa"}
BLOCK = {"kind": "capacity_block", "reservation": "cr-0123456789abcdef0"}
EXISTING = {"kind": "reserved", "reservation": "cr-0123456789abcdef0"}


def lay_out(machine):
    return plan_fabric("efa", catalog.get_machine_facts(machine, "aws")).interfaces


@pytest.mark.parametrize(
    ("machine", "cards"), [("p4d.24xlarge", 4), ("p5.48xlarge", 32), ("p6-b200.48xlarge", 8)]
)
def test_card_0_has_ip_first_and_every_card_has_an_efa_only_interface(machine, cards):
    ip, *fabric = lay_out(machine)
    assert ip == NetworkInterface(0, 0, "interface")
    assert fabric[0] == NetworkInterface(0, 1, "efa-only")
    assert fabric[1:] == [NetworkInterface(card, 0, "efa-only") for card in range(1, cards)]


def test_finding_10_card_0_of_p6_b300_has_no_efa():
    ip, *fabric = lay_out("p6-b300.48xlarge")
    assert ip == NetworkInterface(0, 0, "interface")
    assert fabric == [NetworkInterface(card, 0, "efa-only") for card in range(1, 17)]


def test_machine_with_one_card_has_one_interface_for_ip_and_fabric():
    assert lay_out("g6.8xlarge") == (NetworkInterface(0, 0, "efa"),)


def test_fabric_plan_has_the_rate_that_burn_in_expects(evaluate):
    (fabric,) = evaluate(EFA).fabric
    assert (fabric["pool"], fabric["kind"], fabric["adapters"]) == ("train", "efa", 4)
    assert fabric["expected_gbit_per_s"] == 400
    assert len(fabric["interfaces"]) == 5


def test_template_of_single_nodes_has_interfaces_and_their_tags(evaluate):
    template = evaluate(EFA).find_resource("LaunchTemplate")
    assert set(template) == {"name", "networkInterfaces", "region", "tagSpecifications", "tags"}
    assert [interface["subnetId"] for interface in template["networkInterfaces"]] == [
        "aws-us-east-1-a-private-id"
    ] * 5
    assert not any("associatePublicIpAddress" in interface for interface in template["networkInterfaces"])


def test_efa_nodes_reach_each_other_in_both_directions(evaluate):
    evaluated = evaluate(EFA)
    for kind in ("SecurityGroupIngressRule", "SecurityGroupEgressRule"):
        (internal,) = [rule for rule in evaluated.list_resources(kind) if "referencedSecurityGroupId" in rule]
        assert internal["referencedSecurityGroupId"] == internal["securityGroupId"]
        assert internal["ipProtocol"] == "-1"


def test_efa_nodes_are_in_one_placement_group_in_one_zone(evaluate):
    evaluated = evaluate({**EFA, "zones": []})
    assert evaluated.find_resource("PlacementGroup")["strategy"] == "cluster"
    assert {node["placementGroup"] for node in evaluated.list_resources("Instance")} == {"test-train"}
    assert {node["zone"] for node in evaluated.nodes} == {"us-east-1b"}


def test_reservation_is_in_the_placement_group_of_its_nodes(evaluate):
    evaluated = evaluate({**EFA, "purchase": {"kind": "reserved"}})
    assert evaluated.find_resource("CapacityReservation")["placementGroupArn"] == "arn:of-the-placement-group"


@pytest.mark.parametrize("purchase", [EXISTING, BLOCK], ids=["reservation", "block"])
@pytest.mark.parametrize("group", [False, True])
def test_pool_on_capacity_that_exists_has_no_placement_group(evaluate, purchase, group):
    evaluated = evaluate({**EFA, "purchase": purchase, "group": group})
    assert "PlacementGroup" not in evaluated.kinds


@pytest.mark.parametrize("group", [False, True])
def test_finding_12_nodes_with_several_cards_need_no_elastic_ip(evaluate, group):
    """Five Elastic IPs are the default quota: one per node stops at the sixth node."""
    evaluated = evaluate({**EFA, "count": 8, "group": group})
    (address,) = evaluated.list_resources("Eip")
    gateway = evaluated.find_resource("NatGateway")
    assert (gateway["allocationId"], gateway["subnetId"]) == (
        "aws-us-east-1-a-private-id",
        "aws-us-east-1-a-id",
    )
    assert "instance" not in address
    assert "networkInterface" not in address


def test_nodes_with_several_cards_are_reached_by_session_manager(evaluate):
    evaluated = evaluate(EFA)
    assert {node["access"] for node in evaluated.nodes} == {"ssm"}
    assert {node["public_address"] for node in evaluated.nodes} == {None}
    assert {node["iamInstanceProfile"] for node in evaluated.list_resources("Instance")} == {
        "gpufleet-test-aws-us-east-1"
    }


def test_nodes_with_one_card_keep_their_public_address(evaluate):
    evaluated = evaluate(SMALL_EFA)
    (interface,) = evaluated.find_resource("LaunchTemplate")["networkInterfaces"]
    assert (interface["interfaceType"], interface["associatePublicIpAddress"]) == ("efa", "true")
    assert not {"NatGateway", "Eip", "InstanceProfile"} & evaluated.kinds


def test_group_chooses_the_subnet_of_its_interfaces(evaluate):
    evaluated = evaluate({**EFA, "group": True})
    interfaces = evaluated.find_resource("LaunchTemplate")["networkInterfaces"]
    assert not any("subnetId" in interface for interface in interfaces)
    assert evaluated.find_resource("Group")["vpcZoneIdentifiers"] == ["aws-us-east-1-a-private-id"]


@pytest.mark.parametrize("pool", [{**EFA, "count": 1}, {**EFA, "fabric": "none"}], ids=["single", "none"])
def test_pool_without_fabric_has_no_placement_group(evaluate, pool):
    evaluated = evaluate(pool)
    assert not {"PlacementGroup", "Eip", "NatGateway"} & evaluated.kinds
    assert all(node["associatePublicIpAddress"] for node in evaluated.list_resources("Instance"))
