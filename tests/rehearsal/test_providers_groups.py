"""Groups of the simulated clouds start machines, and faults keep them from it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from gpufleet.errors import InputError
from gpufleet.rehearsal.providers import fault_injection, members
from gpufleet.rehearsal.providers.faults import CloudError
from gpufleet.rehearsal.providers.side_effects import UNOWNED

spec = importlib.util.spec_from_file_location(
    "provider_client", Path(__file__).with_name("test_providers.py")
)
client = importlib.util.module_from_spec(spec)
spec.loader.exec_module(client)

GROUP = "aws:autoscaling/group:Group"
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
ALARM = "aws:cloudwatch/metricAlarm:MetricAlarm"
POLICY = "aws:autoscaling/policy:Policy"
INSTANCE = "aws:ec2/instance:Instance"
SCALE_SET = "azure-native:compute:VirtualMachineScaleSet"
MANAGER = "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager"
REGION_TEMPLATE = "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate"
RESIZE = "gcp:compute/regionResizeRequest:RegionResizeRequest"
MACHINE = "g5.2xlarge"


@pytest.fixture
def home(tmp_path):
    (tmp_path / "providers").mkdir()
    return tmp_path


@pytest.fixture
def open_cloud(home):
    return lambda cloud: client.ProviderClient(cloud, home / "providers" / f"{cloud}.sqlite")


@pytest.fixture
def aws(open_cloud):
    return open_cloud("aws")


@pytest.fixture
def subnets(aws):
    vpc, _ = aws.create("aws:ec2/vpc:Vpc", "net", {"cidrBlock": "10.64.0.0/16"})
    return [
        aws.create(
            "aws:ec2/subnet:Subnet",
            letter,
            {"vpcId": vpc, "cidrBlock": f"10.64.{16 * n}.0/20", "availabilityZone": f"us-east-1{letter}"},
        )[0]
        for n, letter in enumerate("ab")
    ]


def create_group(aws, subnets, name="spot", size=4, *, spot=True, most=8, **fields):
    identity, _ = aws.create(TEMPLATE, name, {"name": name, "instanceType": MACHINE})
    policy = {
        "instancesDistribution": {"onDemandPercentageAboveBaseCapacity": 0 if spot else 100},
        "launchTemplate": {"launchTemplateSpecification": {"launchTemplateId": identity, "version": "1"}},
    }
    inputs = {
        "name": name,
        "minSize": 0,
        "maxSize": most,
        "desiredCapacity": size,
        "vpcZoneIdentifiers": subnets,
        "mixedInstancesPolicy": policy,
        **fields,
    }
    return aws.create(GROUP, name, inputs)[0], inputs


def list_zones(home, group="spot"):
    return sorted(
        member["zone"] for member in members.list_group_members("dev", home) if member["group"] == group
    )


def test_group_members_have_what_an_inventory_needs(home, aws, subnets):
    create_group(aws, subnets)
    found = members.list_group_members("dev", home)
    assert (
        len({member["id"] for member in found}) == len({member["private_address"] for member in found}) == 4
    )
    assert {member["zone"] for member in found} == {"us-east-1a", "us-east-1b"}
    assert {
        (member["cloud"], member["group"], member["machine"], member["purchase"]) for member in found
    } == {("aws", "spot", MACHINE, "spot")}
    assert all(type(value) is str for member in found for value in member.values())


def test_a_smaller_group_keeps_its_first_members_and_a_deleted_one_none(home, aws, subnets):
    identity, inputs = create_group(aws, subnets)
    before = [member["id"] for member in members.list_group_members("dev", home)]
    aws.update(GROUP, "spot", identity, inputs, {**inputs, "desiredCapacity": 2})
    assert [member["id"] for member in members.list_group_members("dev", home)] == before[:2]
    aws.delete(GROUP, "spot", identity)
    assert members.list_group_members("dev", home) == []


def test_a_stock_out_in_the_first_zone_moves_the_machines_to_the_second(home, aws, subnets):
    fault_injection.add_cloud_fault(home, "aws", {"kind": "stock-out", "zone": "us-east-1a"})
    create_group(aws, subnets)
    assert list_zones(home) == ["us-east-1b"] * 4


def test_a_group_without_capacity_stays_short_until_the_fault_is_cleared(home, aws, subnets):
    fault_injection.add_cloud_fault(
        home, "aws", {"kind": "stock-out", "machine": MACHINE, "purchase": "spot"}
    )
    create_group(aws, subnets)
    assert list_zones(home) == []
    assert fault_injection.clear_faults(home) == []
    assert len(list_zones(home)) == 4


def test_a_stock_out_of_spot_starts_the_next_rung(home, aws, subnets):
    """The alarm on the spot group starts as many machines on demand as are missing, and ends them afterwards."""
    create_group(aws, subnets, size=3)
    create_group(aws, subnets, "next", 0, spot=False)
    steps = [
        {"scalingAdjustment": 1, "metricIntervalUpperBound": "0", "metricIntervalLowerBound": "-1.5"},
        {"scalingAdjustment": 3, "metricIntervalUpperBound": "-1.5"},
    ]
    common = {"autoscalingGroupName": "next", "adjustmentType": "ExactCapacity"}
    _, start = aws.create(
        POLICY, "start", {"name": "start", "policyType": "StepScaling", "stepAdjustments": steps, **common}
    )
    _, stop = aws.create(
        POLICY, "stop", {"name": "stop", "policyType": "SimpleScaling", "scalingAdjustment": 0, **common}
    )
    alarm = {
        "name": "missing",
        "metricName": "GroupInServiceInstances",
        "dimensions": {"AutoScalingGroupName": "spot"},
        "comparisonOperator": "LessThanThreshold",
        "evaluationPeriods": 5,
        "threshold": 3,
        "alarmActions": [start["arn"]],
        "okActions": [stop["arn"]],
    }
    aws.create(ALARM, "missing", alarm)
    assert (len(list_zones(home)), len(list_zones(home, "next"))) == (3, 0)
    fault_injection.add_cloud_fault(home, "aws", {"kind": "stock-out", "purchase": "spot"})
    for member in members.list_group_members("dev", home):
        fault_injection.preempt(home, "aws", member["name"])
    assert (len(list_zones(home)), len(list_zones(home, "next"))) == (0, 3)
    fault_injection.clear_faults(home, "aws")
    assert (len(list_zones(home)), len(list_zones(home, "next"))) == (3, 0)


def test_a_preempted_member_is_replaced_and_the_others_stay(home, aws, subnets):
    create_group(aws, subnets)
    before = members.list_group_members("dev", home)
    fault_injection.preempt(home, "aws", before[1]["id"])
    after = members.list_group_members("dev", home)
    assert len(after) == 4
    assert len({member["id"] for member in before} & {member["id"] for member in after}) == 3


def test_only_spot_machines_are_preempted(home, aws, subnets):
    create_group(aws, subnets, spot=False)
    member = members.list_group_members("dev", home)[0]
    with pytest.raises(InputError, match="bought as on_demand"):
        fault_injection.preempt(home, "aws", member["name"])
    with pytest.raises(InputError, match="no machine 'nobody'"):
        fault_injection.preempt(home, "aws", "nobody")


@pytest.mark.parametrize(
    "case",
    [
        ("aws", INSTANCE, {"ami": "ami-1", "instanceType": MACHINE}, "InsufficientInstanceCapacity: "),
        ("gcp", client.GCP_NODE, client.gcp_node(), "ZONE_RESOURCE_POOL_EXHAUSTED: "),
        (
            "azure-native",
            "azure-native:compute:VirtualMachine",
            {
                "resourceGroupName": "g",
                "vmName": "n",
                "hardwareProfile": {"vmSize": "Standard_NC4as_T4_v3"},
                "zones": ["1"],
            },
            "OverconstrainedZonalAllocationRequest: ",
        ),
    ],
)
def test_a_single_machine_gets_the_clouds_own_error(home, open_cloud, case):
    cloud, kind, inputs, code = case
    name = "azure" if cloud == "azure-native" else cloud
    fault_injection.add_cloud_fault(home, name, {"kind": "stock-out"})
    provider = open_cloud(cloud)
    with pytest.raises(CloudError, match=code):
        provider.create(kind, "one", inputs)
    assert provider.provider.store.find_all_resources() == []
    fault_injection.clear_faults(home)
    provider.create(kind, "one", inputs)
    quota = {"kind": "quota", "count": 1}
    fault_injection.add_cloud_fault(home, name, quota)
    with pytest.raises(CloudError, match=r"VcpuLimitExceeded|QUOTA_EXCEEDED|QuotaExceeded"):
        provider.create(
            kind,
            "two",
            {
                **inputs,
                **({"name": "two"} if cloud == "gcp" else {}),
                **({"vmName": "m"} if name == "azure" else {}),
            },
        )


def scale_set(capacity, size="Standard_NC4as_T4_v3"):
    return {
        "resourceGroupName": "g",
        "vmScaleSetName": "s",
        "zones": ["1", "2"],
        "sku": {"name": size, "capacity": capacity},
        "virtualMachineProfile": {"priority": "Regular"},
    }


def test_a_scale_set_that_grows_in_a_stock_out_is_refused_and_stays_as_it_was(home, open_cloud):
    azure = open_cloud("azure-native")
    identity, state = azure.create(SCALE_SET, "s", scale_set(2))
    fault_injection.add_cloud_fault(home, "azure", {"kind": "stock-out"})
    with pytest.raises(CloudError, match="OverconstrainedZonalAllocationRequest: "):
        azure.update(SCALE_SET, "s", identity, state, scale_set(3))
    assert len(members.list_group_members("dev", home)) == 2
    assert azure.diff(SCALE_SET, "s", identity, state, scale_set(3)).changes
    azure.update(SCALE_SET, "s", identity, state, scale_set(1))  # fewer machines need no capacity
    fault_injection.clear_faults(home)
    azure.update(SCALE_SET, "s", identity, state, scale_set(3))
    assert len(members.list_group_members("dev", home)) == 3


def test_a_scale_set_grows_into_the_zone_that_has_capacity(home, open_cloud):
    azure = open_cloud("azure-native")
    fault_injection.add_cloud_fault(home, "azure", {"kind": "stock-out", "zone": "1"})
    azure.create(SCALE_SET, "s", scale_set(3))
    assert {member["zone"] for member in members.list_group_members("dev", home)} == {"2"}


def test_a_new_scale_set_without_capacity_is_refused_whole(home, open_cloud):
    azure = open_cloud("azure-native")
    fault_injection.add_cloud_fault(home, "azure", {"kind": "stock-out"})
    with pytest.raises(CloudError, match="OverconstrainedZonalAllocationRequest: "):
        azure.create(SCALE_SET, "s", scale_set(3))
    assert azure.provider.store.find_all_resources() == []


@pytest.mark.parametrize(
    "case",
    [
        (
            "aws",
            INSTANCE,
            {"ami": "ami-1", "instanceType": MACHINE},
            {"instanceType": "g5.4xlarge"},
            ("instanceState", "stopped", "running"),
        ),
        (
            "gcp",
            client.GCP_NODE,
            client.gcp_node(machineType="g2-standard-4"),
            {"machineType": "g2-standard-8"},
            ("currentStatus", "TERMINATED", "RUNNING"),
        ),
        (
            "azure",
            "azure-native:compute:VirtualMachine",
            {"resourceGroupName": "g", "vmName": "n", "hardwareProfile": {"vmSize": "Standard_NC4as_T4_v3"}},
            {"hardwareProfile": {"vmSize": "Standard_NC8as_T4_v3"}},
            ("provisioningState", "Succeeded", "Succeeded"),
        ),
    ],
)
def test_a_machine_is_not_resized_in_a_stock_out(home, open_cloud, case):
    """AWS and Google have stopped it by then; the next `pulumi up` resizes and starts it."""
    cloud, kind, inputs, change, state = case
    provider = open_cloud("azure-native" if cloud == "azure" else cloud)
    key, failed, resized = state
    identity, before = provider.create(kind, "one", inputs)
    fault_injection.add_cloud_fault(home, cloud, {"kind": "stock-out"})
    with pytest.raises(CloudError, match=r"InsufficientInstanceCapacity|ZONE_RESOURCE_POOL|AllocationFailed"):
        provider.update(kind, "one", identity, before, {**inputs, **change})
    assert provider.provider.store.get_resource(kind, identity).outputs[key] == failed
    assert provider.diff(kind, "one", identity, before, {**inputs, **change}).changes
    provider.update(kind, "one", identity, before, {**inputs, "tags": {"a": "b"}})  # needs no capacity
    fault_injection.clear_faults(home)
    provider.update(kind, "one", identity, before, {**inputs, **change})
    assert provider.provider.store.get_resource(kind, identity).outputs[key] == resized


def test_throttling_ends_after_its_count(home, aws):
    fault_injection.add_cloud_fault(home, "aws", {"kind": "throttle", "count": 2})
    for _ in range(2):
        with pytest.raises(CloudError, match="RequestLimitExceeded"):
            aws.create("aws:ec2/vpc:Vpc", "net", {})
    aws.create("aws:ec2/vpc:Vpc", "net", {})
    assert fault_injection.list_faults(home) == []


def test_a_failure_half_way_keeps_what_was_created(home, aws):
    fault_injection.add_cloud_fault(home, "aws", {"kind": "fail-after", "count": 1})
    aws.create("aws:ec2/vpc:Vpc", "one", {})
    for name in ("two", "three"):
        with pytest.raises(CloudError, match="InternalError"):
            aws.create("aws:ec2/vpc:Vpc", name, {})
    fault_injection.clear_faults(home)
    aws.create("aws:ec2/vpc:Vpc", "two", {})
    assert len(aws.provider.store.find_all_resources()) == 2


def test_a_creation_whose_answer_was_lost_is_found_again(home, aws):
    fault_injection.add_cloud_fault(home, "aws", {"kind": "lose-answer", "count": 1})
    with pytest.raises(CloudError, match="InternalError"):
        aws.create("aws:ec2/vpc:Vpc", "one", {})
    aws.create("aws:ec2/vpc:Vpc", "one", {})
    assert len(aws.provider.store.find_all_resources()) == 1


def test_a_persistent_spot_request_outlives_its_instance(home, aws, subnets):
    options = {
        "marketType": "spot",
        "spotOptions": {"spotInstanceType": "persistent", "instanceInterruptionBehavior": "stop"},
    }
    identity, _ = aws.create(INSTANCE, "one", client.node(subnets[0], instanceMarketOptions=options))
    aws.delete(INSTANCE, "one", identity)
    left = {row.type: row for row in members.list_remaining_resources(home) if row.urn == UNOWNED}
    assert set(left) == {INSTANCE, "aws:ec2/spotInstanceRequest:SpotInstanceRequest"}
    assert left[INSTANCE].id != identity


def test_a_fleet_leaks_its_machines_unless_told_to_end_them(home, aws, subnets):
    template, _ = aws.create(TEMPLATE, "t", {"name": "t", "instanceType": MACHINE})
    config = {
        "launchTemplateSpecification": {"launchTemplateId": template, "version": "1"},
        "overrides": [{"subnetId": subnets[0]}],
    }
    capacity = {"defaultTargetCapacityType": "on-demand", "totalTargetCapacity": 2}
    for ends in (True, False):
        inputs = {
            "launchTemplateConfigs": [config],
            "targetCapacitySpecification": capacity,
            "terminateInstances": ends,
        }
        identity, _ = aws.create("aws:ec2/fleet:Fleet", "f", inputs)
        assert len(members.list_group_members("dev", home)) == 2
        aws.delete("aws:ec2/fleet:Fleet", "f", identity)
        leaked = [row for row in members.list_remaining_resources(home) if row.urn == UNOWNED]
        assert len(leaked) == (0 if ends else 2)


def test_gcp_groups_follow_their_autoscaler_and_resize_requests(home, open_cloud):
    gcp = open_cloud("gcp")
    _, template = gcp.create(
        REGION_TEMPLATE,
        "t",
        {"name": "t", "region": "us-central1", "machineType": "g2-standard-4", "disks": [{}]},
    )
    versions = [{"instanceTemplate": template["selfLink"]}]
    manager = {"name": "m", "baseInstanceName": "m", "region": "us-central1", "versions": versions}
    _, group = gcp.create(
        MANAGER, "m", {**manager, "distributionPolicyZones": ["us-central1-a", "us-central1-b"]}
    )
    assert members.list_group_members("dev", home) == []
    gcp.create(
        "gcp:compute/regionAutoscaler:RegionAutoscaler",
        "m",
        {"name": "m", "target": group["selfLink"], "autoscalingPolicy": {"minReplicas": 2, "maxReplicas": 3}},
    )
    assert {member["zone"] for member in members.list_group_members("dev", home)} == {
        "us-central1-a",
        "us-central1-b",
    }
    gcp.create(MANAGER, "f", {**manager, "name": "f", "distributionPolicyTargetShape": "ANY_SINGLE_ZONE"})
    gcp.create(
        RESIZE, "f", {"name": "f", "instanceGroupManager": "f", "region": "us-central1", "resizeBy": 3}
    )
    flex = [member for member in members.list_group_members("dev", home) if member["group"].endswith("/f")]
    assert (len(flex), {member["zone"] for member in flex}) == (3, {"us-central1-a"})


def test_scale_sets_start_their_capacity(home, open_cloud):
    azure = open_cloud("azure-native")
    inputs = {
        "resourceGroupName": "g",
        "vmScaleSetName": "s",
        "zones": ["1", "2"],
        "sku": {"name": "Standard_NC4as_T4_v3", "capacity": 3},
        "virtualMachineProfile": {"priority": "Spot", "evictionPolicy": "Delete"},
    }
    azure.create(SCALE_SET, "s", inputs)
    found = members.list_group_members("dev", home)
    assert [member["zone"] for member in found] == ["1", "2", "1"]
    assert {member["purchase"] for member in found} == {"spot"}
