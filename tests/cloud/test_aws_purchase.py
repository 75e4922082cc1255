"""Test each kind of purchase on AWS, and what a change of it does to nodes that run."""

from __future__ import annotations

import pytest

BLOCK = {"kind": "capacity_block", "reservation": "cr-0123456789abcdef0"}
OFFERING = {"kind": "capacity_block", "offering": "cb-0123456789abcdef0", "buy": True}
EXISTING = {"kind": "reserved", "reservation": "cr-0123456789abcdef0"}
GPU = {"cloud": "aws", "machine": "g5.2xlarge"}
DISKS = {"templates": {"plain": {"volumes": [{"name": "data", "size_gib": 500, "kind": "ssd"}]}}}


def test_committed_nodes_start_like_on_demand_ones_and_carry_their_term(evaluate):
    """A Savings Plan or Reserved Instance is a bill, not a resource."""
    evaluated = evaluate({**GPU, "purchase": {"kind": "committed", "term": "1y"}})
    node = evaluated.find_resource("Instance")
    assert not {"instanceMarketOptions", "capacityReservationSpecification"} & node.keys()
    assert node["tags"]["gpufleet-purchase"] == "committed-1y"
    assert "CapacityReservation" not in evaluated.kinds


def test_finding_11_capacity_block_has_its_market_type_and_target(evaluate):
    node = evaluate({"cloud": "aws", "purchase": BLOCK}).find_resource("Instance")
    assert node["instanceMarketOptions"] == {"marketType": "capacity-block"}
    assert node["capacityReservationSpecification"] == {
        "capacityReservationTarget": {"capacityReservationId": "cr-0123456789abcdef0"}
    }


def test_finding_11_capacity_block_group_has_its_market_type_and_target(evaluate):
    evaluated = evaluate({"cloud": "aws", "count": 4, "group": True, "purchase": BLOCK})
    template, group = evaluated.find_resource("LaunchTemplate"), evaluated.find_resource("Group")
    assert template["instanceMarketOptions"] == {"marketType": "capacity-block"}
    assert template["capacityReservationSpecification"] == {
        "capacityReservationTarget": {"capacityReservationId": "cr-0123456789abcdef0"}
    }
    assert "mixedInstancesPolicy" not in group
    assert group["launchTemplate"]["id"] == "train-id"


def test_bought_capacity_block_is_pinned_and_protected(evaluate):
    evaluated = evaluate({"cloud": "aws", "count": 2, "purchase": OFFERING})
    assert evaluated.find_resource("CapacityBlockReservation") == {
        "capacityBlockOfferingId": "cb-0123456789abcdef0",
        "instancePlatform": "Linux/UNIX",
        "region": "us-east-1",
        "tags": evaluated.find_resource("LaunchTemplate")["tags"],
    }
    (options,) = evaluated.list_options("CapacityBlockReservation")
    assert options["protect"] is True
    assert "capacityBlockOfferingId" in options["ignore_changes"]
    for node in evaluated.list_resources("Instance"):
        target = node["capacityReservationSpecification"]["capacityReservationTarget"]
        assert target == {"capacityReservationId": "train-id"}


IMAGE = {"aws:ec2/getAmi:getAmi": {"id": "ami-1", "rootDeviceName": "/dev/sda1"}}
BLOCK_LOOKUP = "aws:ec2/getCapacityBlockReservation:getCapacityBlockReservation"


@pytest.mark.parametrize(
    ("end", "start"),
    [("2099-12-31T11:30:00Z", "2099-12-31T10:50:00Z"), ("2099-12-31T00:10:00+00:00", "2099-12-30T23:30:00Z")],
)
def test_group_is_empty_before_its_capacity_block_ends(evaluate, end, start):
    """AWS terminates what runs 30 minutes before the end, and the group would try to replace it."""
    pool = {"cloud": "aws", "count": 4, "group": True, "purchase": BLOCK}
    evaluated = evaluate(pool, replies={**IMAGE, BLOCK_LOOKUP: {"endDate": end}})
    assert evaluated.find_resource("Schedule") == {
        "autoscalingGroupName": "test-train",
        "scheduledActionName": "test-train-block-end",
        "minSize": 0,
        "desiredCapacity": 0,
        "maxSize": -1,
        "startTime": start,
        "region": "us-east-1",
    }


def test_bought_capacity_block_gives_its_own_end(evaluate):
    evaluated = evaluate({"cloud": "aws", "count": 2, "group": True, "purchase": OFFERING})
    assert evaluated.find_resource("Schedule")["startTime"] == "2099-12-31T10:50:00Z"
    assert not [call for call in evaluated.recorder.calls if call.token == BLOCK_LOOKUP]


@pytest.mark.parametrize("reply", [{}, {"endDate": "2020-01-02T11:30:00Z"}], ids=["no engine", "over"])
def test_no_action_in_the_past_or_at_an_unknown_time(evaluate, reply):
    pool = {"cloud": "aws", "count": 4, "group": True, "purchase": BLOCK}
    assert "Schedule" not in evaluate(pool, replies={**IMAGE, BLOCK_LOOKUP: reply}).kinds


def test_single_nodes_of_a_capacity_block_need_no_scale_in(evaluate):
    """Nothing replaces them when AWS terminates them."""
    evaluated = evaluate({"cloud": "aws", "count": 2, "purchase": BLOCK})
    assert "Schedule" not in evaluated.kinds
    assert not [call for call in evaluated.recorder.calls if call.token == BLOCK_LOOKUP]


@pytest.mark.parametrize("count", [1, 4, {"min": 0, "max": 4}])
def test_finding_5_spot_is_always_a_group(evaluate, count):
    """A persistent request of a single instance outlives destroy; a group leaves nothing behind."""
    evaluated = evaluate({**GPU, "count": count, "purchase": {"kind": "spot"}})
    assert not {"Instance", "SpotInstanceRequest"} & evaluated.kinds
    assert "instanceMarketOptions" not in evaluated.find_resource("LaunchTemplate")


def test_spot_group_diversifies_over_machines_and_zones(evaluate):
    purchase = {"kind": "spot", "machines": ["g5.4xlarge", "g5.8xlarge"], "max_usd_per_hour": 1.5}
    group = evaluate({**GPU, "zones": [], "purchase": purchase}).find_resource("Group")
    policy = group["mixedInstancesPolicy"]
    assert policy["launchTemplate"]["overrides"] == [
        {"instanceType": machine} for machine in ("g5.2xlarge", "g5.4xlarge", "g5.8xlarge")
    ]
    assert policy["instancesDistribution"] == {
        "onDemandBaseCapacity": 0,
        "onDemandPercentageAboveBaseCapacity": 0,
        "spotAllocationStrategy": "price-capacity-optimized",
        "spotMaxPrice": "1.5",
    }
    assert group["vpcZoneIdentifiers"] == ["aws-us-east-1-b-id", "aws-us-east-1-c-id"]


def test_spot_allocation_strategy_is_the_specs(evaluate):
    purchase = {"kind": "spot", "allocation": "capacity-optimized"}
    policy = evaluate({**GPU, "purchase": purchase}).find_resource("Group")["mixedInstancesPolicy"]
    assert policy["instancesDistribution"]["spotAllocationStrategy"] == "capacity-optimized"


@pytest.mark.parametrize("group", [False, True])
def test_finding_8_a_purchase_change_replaces_nodes_whatever_the_provider_sees(evaluate, group):
    """The provider finds no difference between spot and on demand on what exists: the engine must."""
    triggers = set()
    kind = "Group" if group else "Instance"
    for purchase in ({"kind": "on_demand"}, {"kind": "committed", "term": "1y"}, EXISTING, BLOCK):
        evaluated = evaluate({**GPU, "machine": "p4d.24xlarge", "group": group, "purchase": purchase})
        triggers.add(evaluated.list_options(kind)[0]["replacement_trigger"])
    assert len(triggers) == 3  # a commitment is only a bill: its nodes are on-demand ones and stay


def test_running_nodes_survive_a_newer_image_key_or_template(evaluate):
    (options,) = evaluate(GPU).list_options("Instance")
    assert options["ignore_changes"] == ["ami", "userData", "launchTemplate.version"]


def test_volumes_are_resources_of_their_own(evaluate):
    evaluated = evaluate({**GPU, "count": 2, "hours_per_month": 60}, **DISKS)
    volumes = evaluated.list_resources("Volume")
    assert [(volume["size"], volume["type"], volume["encrypted"]) for volume in volumes] == [
        (500, "gp3", True)
    ] * 2
    assert {volume["availabilityZone"] for volume in volumes} == {"us-east-1a"}
    assert [volume["tags"]["gpufleet-node"] for volume in volumes] == ["test-train-1", "test-train-2"]
    attachments = evaluated.list_resources("VolumeAttachment")
    assert [(item["deviceName"], item["instanceId"]) for item in attachments] == [
        ("/dev/sdf", "train-1-id"),
        ("/dev/sdf", "train-2-id"),
    ]
    assert all(options["delete_before_replace"] for options in evaluated.list_options("VolumeAttachment"))


def test_volumes_of_a_group_are_in_its_template(evaluate):
    evaluated = evaluate({**GPU, "count": 2, "group": True}, **DISKS)
    root, data = evaluated.find_resource("LaunchTemplate")["blockDeviceMappings"]
    assert (root["deviceName"], data["deviceName"]) == ("/dev/sda1", "/dev/sdf")
    assert (data["ebs"]["volumeSize"], data["ebs"]["deleteOnTermination"]) == (500, "true")
    assert "Volume" not in evaluated.kinds


def test_local_drives_need_no_volume(evaluate):
    templates = {"plain": {"volumes": [{"name": "scratch", "size_gib": 2000, "kind": "nvme"}]}}
    evaluated = evaluate({"cloud": "aws"}, templates=templates)
    assert not {"Volume", "VolumeAttachment"} & evaluated.kinds
