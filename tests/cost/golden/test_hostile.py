"""Test unusual and hostile inputs: nothing fails, is dropped or counted twice."""

from __future__ import annotations

from decimal import Decimal

import pytest

from gpufleet import cost
from gpufleet.engine import SECRET, UNKNOWN, StateResource

INSTANCE, GROUP = "aws:ec2/instance:Instance", "aws:autoscaling/group:Group"
TEMPLATE, FLEET = "aws:ec2/launchTemplate:LaunchTemplate", "aws:ec2/fleet:Fleet"
HELD = "aws:ec2/capacityReservation:CapacityReservation"
GCP, VM = "gcp:compute/instance:Instance", "azure-native:compute:VirtualMachine"
SET, BALANCER = "azure-native:compute:VirtualMachineScaleSet", "aws:lb/loadBalancer:LoadBalancer"
DISK = {"volumeSize": 100, "volumeType": "gp3"}
HOUR = Decimal("1.212")  # g5.2xlarge on demand
LAUNCHED = {"launchTemplate": {"id": "lt-t"}, "region": "us-east-1"}


def declare(type_, name="a", id_=None, **inputs):
    urn = f"urn:pulumi:prod::p::gpufleet:cloud:AwsPool${type_}::{name}"
    return StateResource(urn, type_, name, inputs, {}, id=id_)


def instance(name="a", **inputs):
    declared = {"instanceType": "g5.2xlarge", "availabilityZone": "us-east-1a", "rootBlockDevice": DISK}
    return declare(INSTANCE, name, **{**declared, "subnetId": "subnet-outside", **inputs})


def template(**inputs):
    disks = [{"ebs": DISK}]
    declared = {"instanceType": "g5.2xlarge", "placement": {"availabilityZone": "us-east-1a"}}
    return declare(TEMPLATE, "t", "lt-t", **{**declared, "blockDeviceMappings": disks, **inputs})


def gcp(**inputs):
    boot = {"initializeParams": {"size": 100, "type": "pd-balanced"}}
    return declare(
        GCP, **{"zone": "us-central1-a", "machineType": "n1-standard-8", "bootDisk": boot, **inputs}
    )


def reservation(name, count):
    declared = {
        "instanceType": "g5.2xlarge",
        "instancePlatform": "Linux/UNIX",
        "availabilityZone": "us-east-1a",
    }
    return declare(HELD, name, instanceCount=count, **declared)


def machines(bill):
    return sum(
        (charge.usd_per_month.expected for charge in bill.charges if charge.component.startswith("machine")),
        Decimal(0),
    )


HIDDEN = {
    "cards": (gcp(guestAccelerators=UNKNOWN), "its accelerators are not known"),
    "secret cards": (gcp(guestAccelerators=SECRET), "its accelerators are a secret"),
    "boot disk": (gcp(bootDisk=UNKNOWN), "its boot disk is not known"),
    "local disks": (gcp(scratchDisks=UNKNOWN), "its local disks are not known"),
    "addresses": (gcp(networkInterfaces=UNKNOWN), "its network cards are not known"),
    "volumes": (instance(ebsBlockDevices=UNKNOWN), "its further volumes are not known"),
    "a public address": (instance(associatePublicIpAddress=UNKNOWN), "whether it has a public address is not"),
    "an absurd size": (instance(rootBlockDevice={**DISK, "volumeSize": 10**30}), "size is not known"),
    "a number too large to add": (instance(rootBlockDevice={**DISK, "volumeSize": "1e400"}), "size is not known"),
    "azure disks": (
        declare(VM, location="eastus", hardwareProfile={"vmSize": "Standard_NC4as_T4_v3"}, storageProfile=UNKNOWN),
        "its disks are not known",
    ),
    "a scale set's cards": (
        declare(
            SET, location="eastus", sku={"name": "Standard_NC4as_T4_v3", "capacity": 1},
            virtualMachineProfile={"networkProfile": UNKNOWN},
        ),
        "its network cards are not known",
    ),
    "a balancer's kind": (declare(BALANCER, region="us-east-1", loadBalancerType=UNKNOWN), "its kind is not known"),
    "a balancer's subnets": (declare(BALANCER, region="us-east-1", subnets=UNKNOWN), "how many public addresses"),
    "node pools": (
        declare("gcp:container/cluster:Cluster", location="us-central1-a", nodePools=UNKNOWN),
        "its node pools are not known",
    ),
    "nodes": (
        declare("gcp:container/nodePool:NodePool", location="us-central1-a", nodeCount=1, nodeConfig=UNKNOWN),
        "its node configuration is not known",
    ),
    "agent pools": (
        declare("azure-native:containerservice:ManagedCluster", location="eastus", agentPoolProfiles=UNKNOWN),
        "its agent pools are not known",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", HIDDEN)
def test_unknown_values_are_listed_as_unpriced(what, golden_book):
    resource, reason = HIDDEN[what]
    reasons = [gap.reason for gap in cost.price_resources([resource], golden_book).unpriced_resources]
    assert any(reason in text for text in reasons), reasons


@pytest.mark.parametrize(
    ("resource", "least", "maximum"),
    [
        (instance(instanceMarketOptions=UNKNOWN), "0.43632", "1.212"),
        (instance(instanceMarketOptions={"marketType": SECRET}), "0.43632", "1.212"),
        (gcp(scheduling={"provisioningModel": UNKNOWN}), "0.13402", "0.379998"),
        (
            declare(
                VM, location="eastus", hardwareProfile={"vmSize": "Standard_NC4as_T4_v3"}, priority=UNKNOWN,
                storageProfile={"osDisk": {"diffDiskSettings": {}}},
            ),
            "0.119981",
            "0.526",
        ),
    ],
)  # fmt: skip
def test_possible_spot_machine_is_priced_from_spot_to_on_demand(resource, least, maximum, golden_book):
    bill = cost.price_resources([resource], golden_book)
    rate = next(charge for charge in bill.charges if charge.component == "machine").usd_per_hour
    assert (rate.low, rate.expected, rate.high) == (Decimal(least), Decimal(maximum), Decimal(maximum))
    assert any(
        "bought on spot is not known" in gap.reason and gap.is_bounded for gap in bill.unpriced_resources
    )


def test_two_reservations_cover_two_machines(golden_book):
    bill = cost.price_resources(
        [reservation("r", 1), reservation("s", 1), instance("a"), instance("b")], golden_book
    )
    assert machines(bill) == 2 * HOUR * 730


def test_group_uses_one_reservation_after_the_other(golden_book):
    group = declare(GROUP, "g", minSize=3, maxSize=3, **LAUNCHED)
    bill = cost.price_resources([reservation("r", 1), reservation("s", 1), template(), group], golden_book)
    assert machines(bill) == 3 * HOUR * 730


def test_on_demand_part_of_a_mixed_group_uses_a_reservation(golden_book):
    policy = {
        "instancesDistribution": {"onDemandBaseCapacity": 2, "onDemandPercentageAboveBaseCapacity": 0},
        "launchTemplate": {"launchTemplateSpecification": {"launchTemplateId": "lt-t"}},
    }
    group = declare(GROUP, "g", minSize=4, maxSize=4, region="us-east-1", mixedInstancesPolicy=policy)
    bill = cost.price_resources([reservation("r", 5), template(), group], golden_book)
    assert machines(bill) == (5 * HOUR + 2 * Decimal("0.43632")) * 730


def test_on_demand_part_of_a_fleet_uses_a_reservation(golden_book):
    target = {"defaultTargetCapacityType": "on-demand", "totalTargetCapacity": 2}
    configs = [{"launchTemplateSpecification": {"launchTemplateId": "lt-t"}}]
    fleet = declare(
        FLEET, "f", region="us-east-1", launchTemplateConfigs=configs, targetCapacitySpecification=target
    )
    assert (
        machines(cost.price_resources([reservation("r", 5), template(), fleet], golden_book))
        == 5 * HOUR * 730
    )


def test_reservation_pending_deletion_covers_no_machine(golden_book):
    going = StateResource(**{**vars(reservation("r", 1)), "delete": True})
    assert machines(cost.price_resources([going, instance()], golden_book)) == 2 * HOUR * 730


@pytest.mark.parametrize(
    ("declared", "hours"), [("10000", 730), ("0", 0), ("-5", 730), ("many", 730), ("12.5", 12.5)]
)
def test_declared_hours_are_limited_to_one_month(declared, hours, golden_book):
    bill = cost.price_resources([instance(tags={"gpufleet-hours-per-month": declared})], golden_book)
    assert machines(bill) == HOUR * Decimal(str(hours))


def test_zero_accelerators_are_not_unpriced(golden_book):
    bill = cost.price_resources(
        [gcp(guestAccelerators=[{"type": "nvidia-tesla-t4", "count": 0}])], golden_book
    )
    assert [gap.component for gap in bill.unpriced_resources] == []
    assert {charge.component for charge in bill.charges} == {"machine", "disk:boot"}


def test_unknown_zones_count_as_zones_of_a_node_pool(golden_book):
    pool = {"cluster": "c", "location": "us-central1", "nodeCount": 1, "nodeLocations": [UNKNOWN, UNKNOWN]}
    bill = cost.price_resources(
        [declare("gcp:container/nodePool:NodePool", **pool, nodeConfig={"machineType": "g2-standard-8"})],
        golden_book,
    )
    assert machines(bill) == 2 * Decimal("0.853624") * 730


def test_group_with_two_template_versions_has_a_warning(golden_book):
    disks = [{"boot": True, "diskSizeGb": 100, "diskType": "pd-balanced"}]
    reserved = declare(
        "gcp:compute/instanceTemplate:InstanceTemplate", "t", "t", machineType="n1-standard-8", disks=disks
    )
    versions = [{"instanceTemplate": "t"}, {"instanceTemplate": "t2", "targetSize": {"fixed": 1}}]
    group = declare(
        "gcp:compute/instanceGroupManager:InstanceGroupManager", "m", zone="us-central1-a", targetSize=4,
        targetStoppedSize=1, versions=versions,
    )  # fmt: skip
    reasons = [gap.reason for gap in cost.price_resources([reserved, group], golden_book).unpriced_resources]
    assert any("2 versions" in reason for reason in reasons)
    assert any("stopped machines" in reason for reason in reasons)


@pytest.mark.parametrize("form", ["table", "markdown", "json", "html"])
def test_reports_can_be_written_for_all_clouds_and_hostile_names(form, golden_book):
    names = ["机器", "пул|`x`", "<script>1</script>", "a\x1b[31mred", "two\nlines", "\u202ereversed"]
    clouds = [instance(name) for name in names]
    rate = cost.diff(
        [],
        [*clouds, gcp(), declare("azure-native:compute:Disk", "d", location="West\u00a0Europe")],
        book=golden_book,
    )
    text = cost.render_diff(rate, form)
    assert rate.after.usd_per_month.expected == len(names) * (HOUR + Decimal("0.01")) * 730 + Decimal(
        "287.69854"
    ) + Decimal("4.3")
    assert "\x1b[31m" not in text
    if form == "html":
        assert "<script>1" not in text
