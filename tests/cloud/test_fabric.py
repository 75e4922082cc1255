"""Network cards, placement and scale sets follow from the machine and the number of nodes."""

from __future__ import annotations

import pytest

from gpufleet import catalog
from gpufleet.cloud.aws_fabric import efa_interfaces
from gpufleet.errors import InputError

EFA = {"cloud": "aws", "count": 2, "fabric": "auto"}
ELASTIC = {"cloud": "aws", "count": {"min": 1, "max": 4}, "fabric": "efa"}
INFINIBAND = {"cloud": "azure", "count": 4, "fabric": "auto", "purchase": {"kind": "reserved"}}


@pytest.mark.parametrize(("name", "cards"), [("p4d.24xlarge", 4), ("p5.48xlarge", 32), ("g5.48xlarge", 1)])
def test_every_card_gets_its_efa(name, cards):
    plan = efa_interfaces(catalog.machine(name, "aws"), "subnet-1", ["sg-1"])
    assert [each["network_card_index"] for each in plan] == list(range(cards))
    assert [each["device_index"] for each in plan] == [0] + [1] * (cards - 1)
    assert {each["interface_type"] for each in plan} == {"efa"}


def test_nodes_with_several_cards_ask_for_no_public_address_of_their_own(evaluate):
    found = evaluate(EFA)
    for node in found.all("Instance"):
        assert not {"subnetId", "vpcSecurityGroupIds", "associatePublicIpAddress"} & node.keys()
        assert node["launchTemplate"]["id"] == "train-cards-id"
    assert [len(each["networkInterfaces"]) for each in found.all("LaunchTemplate")] == [4]
    assert len(found.all("Eip")) == 2


def test_the_template_of_cards_holds_nothing_else(evaluate):
    assert set(evaluate(EFA).one("LaunchTemplate")) == {"name", "networkInterfaces", "region", "tags"}


def test_efa_nodes_may_say_anything_to_each_other_in_both_directions(evaluate):
    found = evaluate(EFA)
    for kind in ("SecurityGroupIngressRule", "SecurityGroupEgressRule"):
        (among,) = [rule for rule in found.all(kind) if "referencedSecurityGroupId" in rule]
        assert among["referencedSecurityGroupId"] == among["securityGroupId"]
        assert among["ipProtocol"] == "-1"


def test_several_efa_nodes_are_placed_together(evaluate):
    found = evaluate(EFA)
    assert found.one("PlacementGroup")["strategy"] == "cluster"
    assert {node["placementGroup"] for node in found.all("Instance")} == {"test-train"}


def test_a_reservation_lies_in_the_placement_group_of_its_nodes(evaluate):
    found = evaluate({**EFA, "purchase": {"kind": "reserved"}})
    assert found.one("CapacityReservation")["placementGroupArn"] == "arn:of-the-placement-group"


def test_an_elastic_group_with_one_efa_card_has_a_way_out(evaluate):
    (card,) = evaluate({**ELASTIC, "machine": "g5.48xlarge"}).one("LaunchTemplate")["networkInterfaces"]
    assert (card["interfaceType"], card["associatePublicIpAddress"]) == ("efa", "true")
    assert "subnetId" not in card


def test_an_elastic_group_with_several_efa_cards_is_refused(evaluate):
    with pytest.raises(InputError, match="several EFA cards"):
        evaluate(ELASTIC)


@pytest.mark.parametrize("pool", [{**EFA, "count": 1}, {**EFA, "fabric": "none"}], ids=["single", "none"])
def test_no_fabric_no_placement(evaluate, pool):
    found = evaluate(pool)
    assert not {"PlacementGroup", "LaunchTemplate", "Eip"} & found.kinds
    assert all(node["associatePublicIpAddress"] for node in found.all("Instance"))


def test_infiniband_joins_nodes_of_one_uniform_set(evaluate):
    members = evaluate(INFINIBAND).one("VirtualMachineScaleSet")
    assert members["orchestrationMode"] == "Uniform"
    assert (members["singlePlacementGroup"], members["platformFaultDomainCount"]) == (True, 1)
    assert members["overprovision"] is False
    assert members["sku"]["capacity"] == 4
    assert members["virtualMachineProfile"]["storageProfile"]["imageReference"]["offer"] == "ubuntu-hpc"


def test_a_single_infiniband_machine_stands_alone(evaluate):
    found = evaluate({**INFINIBAND, "count": 1})
    assert "VirtualMachineScaleSet" not in found.kinds
    assert found.one("VirtualMachine")["storageProfile"]["imageReference"]["publisher"] == "microsoft-dsvm"
