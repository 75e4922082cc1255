"""Test that network cards, placement and scale sets match the machine and the number of nodes."""

from __future__ import annotations

import pytest

from gpufleet import catalog
from gpufleet.cloud.aws_fabric import build_efa_interfaces
from gpufleet.errors import InputError

EFA = {"cloud": "aws", "count": 2, "fabric": "auto"}
ELASTIC = {"cloud": "aws", "count": {"min": 1, "max": 4}, "fabric": "efa"}
INFINIBAND = {"cloud": "azure", "count": 4, "fabric": "auto", "purchase": {"kind": "reserved"}}


@pytest.mark.parametrize(("name", "cards"), [("p4d.24xlarge", 4), ("p5.48xlarge", 32), ("g5.48xlarge", 1)])
def test_every_network_card_has_an_efa_interface(name, cards):
    interfaces = build_efa_interfaces(catalog.get_machine(name, "aws"), "subnet-1", ["sg-1"])
    assert [card["network_card_index"] for card in interfaces] == list(range(cards))
    assert [card["device_index"] for card in interfaces] == [0] + [1] * (cards - 1)
    assert {card["interface_type"] for card in interfaces} == {"efa"}


def test_nodes_with_several_cards_use_an_elastic_ip(evaluate):
    evaluated = evaluate(EFA)
    for node in evaluated.list_resources("Instance"):
        assert not {"subnetId", "vpcSecurityGroupIds", "associatePublicIpAddress"} & node.keys()
        assert node["launchTemplate"]["id"] == "train-cards-id"
    assert [
        len(template["networkInterfaces"]) for template in evaluated.list_resources("LaunchTemplate")
    ] == [4]
    assert len(evaluated.list_resources("Eip")) == 2


def test_launch_template_with_network_cards_has_only_network_interfaces(evaluate):
    assert set(evaluate(EFA).find_resource("LaunchTemplate")) == {
        "name",
        "networkInterfaces",
        "region",
        "tags",
    }


def test_efa_nodes_reach_each_other_in_both_directions(evaluate):
    evaluated = evaluate(EFA)
    for kind in ("SecurityGroupIngressRule", "SecurityGroupEgressRule"):
        (internal,) = [rule for rule in evaluated.list_resources(kind) if "referencedSecurityGroupId" in rule]
        assert internal["referencedSecurityGroupId"] == internal["securityGroupId"]
        assert internal["ipProtocol"] == "-1"


def test_efa_nodes_are_in_one_placement_group(evaluate):
    evaluated = evaluate(EFA)
    assert evaluated.find_resource("PlacementGroup")["strategy"] == "cluster"
    assert {node["placementGroup"] for node in evaluated.list_resources("Instance")} == {"test-train"}


def test_reservation_is_in_the_placement_group_of_its_nodes(evaluate):
    evaluated = evaluate({**EFA, "purchase": {"kind": "reserved"}})
    assert evaluated.find_resource("CapacityReservation")["placementGroupArn"] == "arn:of-the-placement-group"


def test_elastic_group_with_one_efa_card_has_a_public_address(evaluate):
    (card,) = evaluate({**ELASTIC, "machine": "g5.48xlarge"}).find_resource("LaunchTemplate")[
        "networkInterfaces"
    ]
    assert (card["interfaceType"], card["associatePublicIpAddress"]) == ("efa", "true")
    assert "subnetId" not in card


def test_elastic_group_with_several_efa_cards_is_refused(evaluate):
    with pytest.raises(InputError, match="several EFA cards"):
        evaluate(ELASTIC)


@pytest.mark.parametrize("pool", [{**EFA, "count": 1}, {**EFA, "fabric": "none"}], ids=["single", "none"])
def test_pool_without_fabric_has_no_placement_group(evaluate, pool):
    evaluated = evaluate(pool)
    assert not {"PlacementGroup", "LaunchTemplate", "Eip"} & evaluated.kinds
    assert all(node["associatePublicIpAddress"] for node in evaluated.list_resources("Instance"))


def test_infiniband_nodes_are_in_one_uniform_scale_set(evaluate):
    scale_set = evaluate(INFINIBAND).find_resource("VirtualMachineScaleSet")
    assert scale_set["orchestrationMode"] == "Uniform"
    assert (scale_set["singlePlacementGroup"], scale_set["platformFaultDomainCount"]) == (True, 1)
    assert scale_set["overprovision"] is False
    assert scale_set["sku"]["capacity"] == 4
    assert scale_set["virtualMachineProfile"]["storageProfile"]["imageReference"]["offer"] == "ubuntu-hpc"


def test_single_infiniband_machine_has_no_scale_set(evaluate):
    evaluated = evaluate({**INFINIBAND, "count": 1})
    assert "VirtualMachineScaleSet" not in evaluated.kinds
    assert (
        evaluated.find_resource("VirtualMachine")["storageProfile"]["imageReference"]["publisher"]
        == "microsoft-dsvm"
    )
