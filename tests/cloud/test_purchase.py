"""Test that each kind of purchase becomes the right arguments on every cloud."""

from __future__ import annotations

import pytest

NC_A100 = "Standard_NC24ads_A100_v4"
HELD = {
    "aws": "cr-0123456789abcdef0",
    "gcp": "held-elsewhere",
    "azure": "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/capacityReservationGroups/x",
}


def aws_instance(evaluate, **purchase):
    return evaluate({"cloud": "aws", "purchase": purchase}).find_resource("Instance")


def gcp_instance(evaluate, **purchase):
    return evaluate({"cloud": "gcp", "purchase": purchase}).find_resource("Instance")


def azure_machine(evaluate, **purchase):
    return evaluate({"cloud": "azure", "purchase": purchase}).find_resource("VirtualMachine")


def test_on_demand_has_no_purchase_arguments(evaluate):
    assert (
        not {"instanceMarketOptions", "capacityReservationSpecification"}
        & aws_instance(evaluate, kind="on_demand").keys()
    )
    assert gcp_instance(evaluate, kind="on_demand")["scheduling"] == {
        "onHostMaintenance": "TERMINATE",
        "provisioningModel": "STANDARD",
        "automaticRestart": True,
    }
    assert (
        not {"priority", "evictionPolicy", "billingProfile"}
        & azure_machine(evaluate, kind="on_demand").keys()
    )


@pytest.mark.parametrize(("eviction", "action"), [("delete", "DELETE"), ("stop", "STOP")])
def test_gcp_spot_eviction_action_is_set(evaluate, eviction, action):
    assert gcp_instance(evaluate, kind="spot", on_eviction=eviction)["scheduling"] == {
        "onHostMaintenance": "TERMINATE",
        "provisioningModel": "SPOT",
        "preemptible": True,
        "automaticRestart": False,
        "instanceTerminationAction": action,
    }


@pytest.mark.parametrize(
    ("purchase", "policy", "price"),
    [
        ({"on_eviction": "delete"}, "Delete", -1),
        ({"on_eviction": "stop", "max_usd_per_hour": 8.0}, "Deallocate", 8.0),
    ],
)
def test_azure_spot_eviction_action_and_maximum_price_are_set(evaluate, purchase, policy, price):
    node = azure_machine(evaluate, kind="spot", **purchase)
    assert (node["priority"], node["evictionPolicy"]) == ("Spot", policy)
    assert node["billingProfile"]["maxPrice"] == price


def test_aws_reservation_is_targeted_and_covers_every_node(evaluate):
    evaluated = evaluate({"cloud": "aws", "count": 3, "fabric": "none", "purchase": {"kind": "reserved"}})
    reservation = evaluated.find_resource("CapacityReservation")
    assert (
        reservation["instanceCount"],
        reservation["instanceMatchCriteria"],
        reservation["endDateType"],
    ) == (
        3,
        "targeted",
        "unlimited",
    )
    assert (reservation["instanceType"], reservation["availabilityZone"]) == ("p4d.24xlarge", "us-east-1a")
    for node in evaluated.list_resources("Instance"):
        target = node["capacityReservationSpecification"]["capacityReservationTarget"]
        assert target == {"capacityReservationId": "train-id"}


def test_gcp_reservation_is_specific_and_targeted_by_its_nodes(evaluate):
    evaluated = evaluate({"cloud": "gcp", "count": 2, "purchase": {"kind": "reserved"}})
    reservation = evaluated.find_resource("Reservation")
    assert reservation["specificReservationRequired"] is True
    assert reservation["specificReservation"]["count"] == 2
    assert reservation["specificReservation"]["instanceProperties"] == {"machineType": "a2-megagpu-16g"}
    affinity = evaluated.list_resources("Instance")[0]["reservationAffinity"]
    assert affinity["specificReservation"]["values"] == [reservation["name"]]


def test_azure_reservation_has_group_and_capacity(evaluate):
    evaluated = evaluate(
        {"cloud": "azure", "machine": NC_A100, "count": 2, "purchase": {"kind": "reserved", "term": "1y"}}
    )
    assert evaluated.find_resource("CapacityReservation")["sku"] == {
        "name": NC_A100,
        "capacity": 2,
    }
    for node in evaluated.list_resources("VirtualMachine"):
        assert node["capacityReservation"]["capacityReservationGroup"]["id"] == "train-id"


@pytest.mark.parametrize(
    "pool", [{"cloud": "aws", "fabric": "auto"}, {"cloud": "gcp"}, {"cloud": "azure", "machine": NC_A100}]
)
def test_existing_reservation_is_used_and_none_created(evaluate, pool):
    held = HELD[pool["cloud"]]
    evaluated = evaluate({**pool, "count": 2, "purchase": {"kind": "reserved", "reservation": held}})
    assert not {"CapacityReservation", "Reservation", "PlacementGroup"} & evaluated.kinds
    assert any(held in str(resource.inputs) for resource in evaluated.recorder.resources)


@pytest.mark.parametrize("pool", [{"cloud": "aws"}, {"cloud": "gcp"}, {"cloud": "azure", "machine": NC_A100}])
def test_pool_of_zero_nodes_reserves_nothing(evaluate, pool):
    evaluated = evaluate({**pool, "count": 0, "purchase": {"kind": "reserved"}})
    assert not {"CapacityReservation", "Reservation", "Instance", "VirtualMachine"} & evaluated.kinds
