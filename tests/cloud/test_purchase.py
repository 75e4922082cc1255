"""Each way of buying is said in the words of its cloud."""

from __future__ import annotations

import pytest

from gpufleet.errors import InputError


def aws(evaluate, **purchase):
    return evaluate({"cloud": "aws", "purchase": purchase}).one("Instance")


def gcp(evaluate, **purchase):
    return evaluate({"cloud": "gcp", "purchase": purchase}).one("Instance")


def azure(evaluate, **purchase):
    return evaluate({"cloud": "azure", "purchase": purchase}).one("VirtualMachine")


def test_on_demand_says_nothing_special(evaluate):
    assert (
        not {"instanceMarketOptions", "capacityReservationSpecification"}
        & aws(evaluate, kind="on_demand").keys()
    )
    assert gcp(evaluate, kind="on_demand")["scheduling"] == {
        "onHostMaintenance": "TERMINATE",
        "automaticRestart": True,
    }
    assert not {"priority", "evictionPolicy", "billingProfile"} & azure(evaluate, kind="on_demand").keys()


@pytest.mark.parametrize(
    ("eviction", "behaviour", "request_type"),
    [("delete", "terminate", "one-time"), ("stop", "stop", "persistent")],
)
def test_aws_spot(evaluate, eviction, behaviour, request_type):
    options = aws(evaluate, kind="spot", on_eviction=eviction)["instanceMarketOptions"]
    expected = {"instanceInterruptionBehavior": behaviour, "spotInstanceType": request_type}
    assert options == {"marketType": "spot", "spotOptions": expected}


def test_aws_spot_price_cap(evaluate):
    options = aws(evaluate, kind="spot", max_usd_per_hour=9.5)["instanceMarketOptions"]
    assert options["spotOptions"]["maxPrice"] == "9.5"


@pytest.mark.parametrize(("eviction", "action"), [("delete", "DELETE"), ("stop", "STOP")])
def test_gcp_spot(evaluate, eviction, action):
    assert gcp(evaluate, kind="spot", on_eviction=eviction)["scheduling"] == {
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
        ({"on_eviction": "stop", "max_usd_per_hour": 7.0}, "Deallocate", 7.0),
    ],
)
def test_azure_spot(evaluate, purchase, policy, price):
    node = azure(evaluate, kind="spot", **purchase)
    assert (node["priority"], node["evictionPolicy"]) == ("Spot", policy)
    assert node["billingProfile"]["maxPrice"] == price


def test_aws_reservation_is_targeted_and_holds_every_node(evaluate):
    found = evaluate({"cloud": "aws", "count": 3, "fabric": "none", "purchase": {"kind": "reserved"}})
    held = found.one("CapacityReservation")
    assert (held["instanceCount"], held["instanceMatchCriteria"], held["endDateType"]) == (
        3,
        "targeted",
        "unlimited",
    )
    assert (held["instanceType"], held["availabilityZone"]) == ("p4d.24xlarge", "us-east-1a")
    for node in found.all("Instance"):
        target = node["capacityReservationSpecification"]["capacityReservationTarget"]
        assert target == {"capacityReservationId": "train-id"}


def test_gcp_reservation_is_specific_and_named_by_its_nodes(evaluate):
    found = evaluate({"cloud": "gcp", "count": 2, "purchase": {"kind": "reserved"}})
    held = found.one("Reservation")
    assert held["specificReservationRequired"] is True
    assert held["specificReservation"]["count"] == 2
    assert held["specificReservation"]["instanceProperties"] == {"machineType": "a2-megagpu-16g"}
    affinity = found.all("Instance")[0]["reservationAffinity"]
    assert affinity["specificReservation"]["values"] == [held["name"]]


def test_azure_reservation_has_group_and_capacity(evaluate):
    found = evaluate({"cloud": "azure", "count": 2, "purchase": {"kind": "reserved", "term": "1y"}})
    assert found.one("CapacityReservation")["sku"] == {"name": "Standard_ND96amsr_A100_v4", "capacity": 2}
    for node in found.all("VirtualMachine"):
        assert node["capacityReservation"]["capacityReservationGroup"]["id"] == "train-id"


@pytest.mark.parametrize("cloud", ["aws", "gcp", "azure"])
def test_a_foreign_reservation_is_used_and_not_made(evaluate, cloud):
    purchase = {"kind": "reserved", "reservation": "cr-0abc"}
    found = evaluate({"cloud": cloud, "count": 2, "fabric": "auto", "purchase": purchase})
    assert not {"CapacityReservation", "Reservation", "PlacementGroup"} & found.kinds
    assert any("cr-0abc" in str(resource.inputs) for resource in found.recorder.resources)


@pytest.mark.parametrize("cloud", ["aws", "gcp", "azure"])
def test_nothing_is_reserved_for_no_nodes(evaluate, cloud):
    found = evaluate({"cloud": cloud, "count": 0, "purchase": {"kind": "reserved"}})
    assert not {"CapacityReservation", "Reservation", "Instance", "VirtualMachine"} & found.kinds


def test_a_group_can_not_stop_what_aws_takes_back(evaluate):
    purchase = {"kind": "spot", "on_eviction": "stop", "fallback": "on_demand"}
    with pytest.raises(
        InputError, match=r"purchase.on_eviction: is stop, .* say delete, or give a fixed count"
    ):
        evaluate({"cloud": "aws", "machine": "g5.2xlarge", "purchase": purchase})
