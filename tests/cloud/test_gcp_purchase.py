"""Test GCP's purchases: what each one sets, and the traps that Google's documents name."""

from __future__ import annotations

import pytest

from gpufleet.errors import InputError

H100 = {"cloud": "gcp", "machine": "a3-highgpu-8g"}
L4 = {"cloud": "gcp", "machine": "g2-standard-4"}
FLEX = {"kind": "flex_start", "max_run_hours": 48}
ELASTIC = {"min": 1, "desired": 2, "max": 4}
LADDER = {"ladder": [{"kind": "reserved", "reservation": "held"}, {"kind": "on_demand"}]}


@pytest.fixture
def instance(evaluate):
    return lambda **pool: evaluate({**L4, **pool}).find_resource("Instance")


@pytest.fixture
def flex(evaluate):
    """Evaluate a flex-start pool; the large machine has no fabric with one node."""
    return lambda **pool: evaluate({**H100, "purchase": FLEX, **pool})


def test_spot_is_preemptible_and_does_not_restart(instance):
    scheduling = instance(purchase={"kind": "spot"})["scheduling"]
    assert scheduling["preemptible"] is True
    assert scheduling["automaticRestart"] is False
    assert scheduling["instanceTerminationAction"] == "DELETE"


def test_commitment_makes_no_resource_and_starts_like_on_demand(evaluate):
    committed = evaluate({**L4, "purchase": {"kind": "committed", "term": "1y"}})
    assert committed.find_resource("Instance")["scheduling"]["automaticRestart"] is True
    assert not committed.kinds & {"Reservation", "RegionCommitment"}
    assert committed.find_resource("Instance")["labels"]["gpufleet-purchase"] == "committed-1y"


def test_reservation_is_named_and_used_by_nobody_else(evaluate):
    reserved = evaluate({**L4, "purchase": {"kind": "reserved"}})
    assert reserved.find_resource("Reservation")["specificReservationRequired"] is True
    affinity = reserved.find_resource("Instance")["reservationAffinity"]
    assert affinity["type"] == "SPECIFIC_RESERVATION"
    assert affinity["specificReservation"] == {
        "key": "compute.googleapis.com/reservation-name",
        "values": ["test-train"],
    }


def test_reservation_over_two_zones_is_refused(evaluate):
    zones = ["us-central1-a", "us-central1-b"]
    with pytest.raises(InputError, match="reservation-zone"):
        evaluate({**L4, "count": 2, "zones": zones, "purchase": {"kind": "reserved"}})


def test_ladder_uses_the_reservation_while_it_has_room(evaluate):
    pool = evaluate({**L4, "purchase": LADDER})
    assert "Reservation" not in pool.kinds
    assert pool.find_resource("Instance")["reservationAffinity"] == {"type": "ANY_RESERVATION"}


@pytest.mark.parametrize(
    "purchase",
    [
        {"ladder": [{"kind": "spot"}, {"kind": "on_demand"}]},
        {"ladder": [FLEX, {"kind": "on_demand"}]},
        {"kind": "spot", "fallback": "on_demand"},
    ],
)
def test_ladder_without_means_of_google_is_refused(evaluate, purchase):
    with pytest.raises(InputError, match=r"purchase|ladder|fallback"):
        evaluate({**L4, "purchase": purchase})


def test_flex_start_template_has_what_resize_requests_demand(flex):
    template = flex(count=1).find_resource("RegionInstanceTemplate")
    assert template["scheduling"] == {
        "onHostMaintenance": "TERMINATE",
        "provisioningModel": "FLEX_START",
        "automaticRestart": False,
        "instanceTerminationAction": "DELETE",
        "maxRunDuration": {"seconds": 48 * 3600},
    }
    assert template["reservationAffinity"] == {"type": "NO_RESERVATION"}


def test_flex_start_group_has_no_size_and_repairs_nothing(flex):
    group = flex(count=1).find_resource("RegionInstanceGroupManager")
    assert "targetSize" not in group
    assert group["waitForInstances"] is False
    assert group["distributionPolicyTargetShape"] == "ANY_SINGLE_ZONE"
    assert group["updatePolicy"]["instanceRedistributionType"] == "NONE"
    assert group["instanceLifecyclePolicy"]["defaultActionOnFailure"] == "DO_NOTHING"


def test_flex_start_single_nodes_have_a_request_each(evaluate):
    pool = evaluate({**L4, "count": 3, "purchase": FLEX})
    requests = pool.list_resources("RegionResizeRequest")
    assert [(row["name"], row["resizeBy"]) for row in requests] == [
        ("test-train-1", 1),
        ("test-train-2", 1),
        ("test-train-3", 1),
    ]
    assert {row["requestedRunDuration"]["seconds"] for row in requests} == {"172800"}


def test_flex_start_nodes_of_a_fabric_start_all_at_once(flex):
    pool = flex(count=4, fabric="auto")
    assert pool.find_resource("RegionResizeRequest")["resizeBy"] == 4


def test_flex_start_pool_of_no_nodes_requests_nothing(evaluate):
    assert evaluate({**L4, "count": 0, "purchase": FLEX}).list_resources("RegionResizeRequest") == []


def test_several_machines_are_ranked_choices_of_a_group(evaluate):
    """The API: "Instance flexibility policy is supported only for … ANY, ANY_SINGLE_ZONE and BALANCED"."""
    pool = evaluate({**L4, "purchase": {"kind": "spot", "machines": ["g2-standard-8"]}})
    group = pool.find_resource("RegionInstanceGroupManager")
    assert group["distributionPolicyTargetShape"] == "BALANCED"
    choices = group["instanceFlexibilityPolicy"]["instanceSelections"]
    assert [(row["rank"], row["machineTypes"]) for row in choices] == [
        (1, ["g2-standard-4"]),
        (2, ["g2-standard-8"]),
    ]
