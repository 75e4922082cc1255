"""Every constraint of the simulated clouds refuses what its document refuses, and nothing of a legal resource."""

from __future__ import annotations

import re

import botocore.session
import pytest

from gpufleet.rehearsal.providers.constraints import CHECKS, SOURCES
from gpufleet.rehearsal.providers.constraints.aws_storage import VOLUME_LIMITS

INSTANCE, TEMPLATE = "aws:ec2/instance:Instance", "aws:ec2/launchTemplate:LaunchTemplate"
GROUP, POLICY = "aws:autoscaling/group:Group", "aws:autoscaling/policy:Policy"
SCHEDULE = "aws:autoscaling/schedule:Schedule"
FLEET, HELD = "aws:ec2/fleet:Fleet", "aws:ec2/capacityReservation:CapacityReservation"
INGRESS = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
NODE, MANAGER = (
    "gcp:compute/instance:Instance",
    "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager",
)
MACHINE, SET = "azure-native:compute:VirtualMachine", "azure-native:compute:VirtualMachineScaleSet"
AZURE_HELD = "azure-native:compute:CapacityReservation"
SPOT = {"marketType": "spot", "spotOptions": {"spotInstanceType": "one-time"}}
STOPS = {"marketType": "spot", "spotOptions": {"instanceInterruptionBehavior": "stop"}}
TARGET = {"capacityReservationTarget": {"capacityReservationId": "cr-0123456789abcdef0"}}
EFA = {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "efa"}
TERMINATE = {"onHostMaintenance": "TERMINATE", "automaticRestart": True}
FLEX = {
    "onHostMaintenance": "TERMINATE",
    "automaticRestart": False,
    "provisioningModel": "FLEX_START",
    "instanceTerminationAction": "DELETE",
    "maxRunDuration": {"seconds": 7200},
}
NO_RESERVATION = {"type": "NO_RESERVATION"}
GROUP_ID = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/capacityReservationGroups/r"
IN_GROUP = {"capacityReservation": {"capacityReservationGroup": {"id": GROUP_ID}}}
LINUX = {"osProfile": {"linuxConfiguration": {"ssh": {"publicKeys": []}}}}


def gcp(machine, scheduling=None, **more):
    return {
        "name": "one",
        "zone": "us-central1-a",
        "machineType": machine,
        "scheduling": scheduling or TERMINATE,
        **more,
    }


def azure(size, **more):
    return {"hardwareProfile": {"vmSize": size}, **more}


def scale_set(size="Standard_NC4as_T4_v3", profile=None, **more):
    return {"sku": {"name": size, "capacity": 2}, "virtualMachineProfile": profile or {}, **more}


ILLEGAL = [
    (INSTANCE, {"ami": "ami-1"}, "MissingParameter"),
    (
        INSTANCE,
        {"instanceMarketOptions": SPOT, "capacityReservationSpecification": TARGET},
        "can't run in a capacity",
    ),
    (
        TEMPLATE,
        {"instanceMarketOptions": {"marketType": "capacity-block"}},
        "needs the id of the Capacity Block",
    ),
    (
        TEMPLATE,
        {
            "instanceMarketOptions": {"marketType": "capacity-block"},
            "capacityReservationSpecification": TARGET,
            "placement": {"groupName": "g"},
        },
        "own placement",
    ),
    (
        TEMPLATE,
        {"instanceType": "g5.2xlarge", "instanceMarketOptions": {"marketType": "capacity-block"}},
        "not sold as",
    ),
    (TEMPLATE, {"instanceType": "p6-b300.48xlarge", "region": "eu-central-1"}, "not offered in eu-central-1"),
    (TEMPLATE, {"instanceMarketOptions": STOPS}, "needs spotInstanceType persistent"),
    (
        TEMPLATE,
        {
            "capacityReservationSpecification": {
                "capacityReservationTarget": {"capacityReservationId": "mine"}
            }
        },
        "InvalidCapacityReservationId.Malformed",
    ),
    (
        TEMPLATE,
        {"networkInterfaces": [{"associatePublicIpAddress": "true"}, {"deviceIndex": 1}]},
        "several network",
    ),
    (
        TEMPLATE,
        {"networkInterfaces": [{"deviceIndex": 0}], "vpcSecurityGroupIds": ["sg-1"]},
        "exclude each other",
    ),
    (
        TEMPLATE,
        {"instanceType": "p6-b300.48xlarge", "networkInterfaces": [EFA]},
        "network card 0 of p6-b300.48xlarge has no EFA",
    ),
    (
        TEMPLATE,
        {"instanceType": "g5.2xlarge", "networkInterfaces": [EFA]},
        "EFA interfaces are not supported on g5.2xlarge",
    ),
    (
        TEMPLATE,
        {"instanceType": "p4d.24xlarge", "networkInterfaces": [EFA, {**EFA, "networkCardIndex": 4}]},
        "p4d.24xlarge has 4 network cards",
    ),
    (TEMPLATE, {"networkInterfaces": [{**EFA, "interfaceType": "efa-only"}]}, "efa-only has none"),
    (TEMPLATE, {"instanceType": "t3.micro", "placement": {"groupName": "g"}}, "no cluster placement"),
    (INSTANCE, {"networkInterfaces": [{"networkInterfaceId": "eni-1"}], "subnetId": "s"}, "conflicts with"),
    (INSTANCE, {"userData": "x" * 20_000}, "limited to 16384"),
    (INSTANCE, {"metadataOptions": {"httpPutResponseHopLimit": 65}}, "1 to 64"),
    (INSTANCE, {"rootBlockDevice": {"volumeType": "st1", "volumeSize": 500}}, "cannot be a boot volume"),
    (TEMPLATE, {"blockDeviceMappings": [{"ebs": {"volumeType": "io2", "volumeSize": 10}}]}, "io2 needs iops"),
    (
        "aws:ebs/volume:Volume",
        {"availabilityZone": "us-east-1a", "type": "gp2", "size": 10, "throughput": 500},
        "none may be set",
    ),
    (SCHEDULE, {"minSize": 0, "startTime": "2099-12-31 10:50"}, "is not a time like"),
    (SCHEDULE, {"startTime": "2099-12-31T10:50:00Z"}, "MinSize, MaxSize and DesiredCapacity must be set"),
    (GROUP, {"minSize": 1, "maxSize": 2}, "must be set"),
    (GROUP, {"minSize": 3, "maxSize": 2, "launchTemplate": {}}, "out of order"),
    (
        GROUP,
        {"mixedInstancesPolicy": {"launchTemplate": {"overrides": [{"instanceType": "g5.xlarge"}] * 2}}},
        "listed twice",
    ),
    (
        GROUP,
        {
            "mixedInstancesPolicy": {
                "instancesDistribution": {"spotInstancePools": 2, "spotAllocationStrategy": "diversified"}
            }
        },
        "only with spot allocation",
    ),
    (POLICY, {"policyType": "StepScaling", "adjustmentType": "ExactCapacity"}, "needs stepAdjustments"),
    (
        POLICY,
        {"stepAdjustments": [{"metricIntervalLowerBound": 0}, {"metricIntervalUpperBound": 1}]},
        "overlap",
    ),
    (FLEET, {"type": "maintain", "spotOptions": {"singleInstanceType": True}}, "type instant"),
    (HELD, {"instanceCount": 0, "instanceType": "g5.xlarge"}, "at least 1"),
    (HELD, {"placementGroupArn": "arn", "instanceType": "t3.micro"}, "t3.micro has no cluster placement"),
    (HELD, {"availabilityZone": "us-west-2a", "region": "us-east-1"}, "not a zone of us-east-1"),
    (
        "aws:ec2/placementGroup:PlacementGroup",
        {"strategy": "cluster", "partitionCount": 2},
        "only with strategy partition",
    ),
    ("aws:ec2/natGateway:NatGateway", {"subnetId": "s"}, "needs the allocation"),
    (INGRESS, {"ipProtocol": "tcp", "fromPort": 22, "toPort": 22}, "exactly one of"),
    (INGRESS, {"ipProtocol": "tcp", "fromPort": 22, "toPort": 1, "cidrIpv4": "10.0.0.0/8"}, "ports 22 to 1"),
    ("aws:ec2/vpc:Vpc", {"cidrBlock": "10.0.0.0/8"}, "/16 to /28"),
    (INSTANCE, {"tags": {"aws:name": "x"}}, "AWS's own"),
    (NODE, gcp("a2-highgpu-1g", {"onHostMaintenance": "MIGRATE"}), "use TERMINATE"),
    (NODE, gcp("g2-standard-4", {**TERMINATE, "provisioningModel": "SPOT"}), "SPOT needs"),
    (
        NODE,
        gcp("a3-highgpu-8g", {**FLEX, "maxRunDuration": {"seconds": 60}}, reservationAffinity=NO_RESERVATION),
        "600 to 604800",
    ),
    (NODE, gcp("a3-highgpu-1g"), "not sold as standard"),
    (NODE, gcp("a3-ultragpu-8g", bootDisk={"initializeParams": {"type": "pd-balanced"}}), "needs Hyperdisk"),
    (NODE, gcp("g2-standard-8", scratchDisks=[{"interface": "NVME"}] * 2), "local SSDs, got 2"),
    (
        NODE,
        gcp("n1-standard-8", guestAccelerators=[{"type": "nvidia-tesla-t4", "count": 3}]),
        "1, 2, 4; got 3",
    ),
    (
        NODE,
        gcp("a2-highgpu-1g", guestAccelerators=[{"type": "nvidia-tesla-t4", "count": 1}]),
        "has nvidia-tesla-a100",
    ),
    (NODE, gcp("a2-ultragpu-1g", zone="us-central1-b"), "does not exist in zone"),
    (NODE, gcp("e2-medium", labels={"Owner": "x"}), "only a-z"),
    (NODE, gcp("a3-highgpu-8g", networkInterfaces=[{"nicType": "MRDMA"}]), "first interface cannot be MRDMA"),
    (NODE, gcp("e2-medium", networkInterfaces=[{"subnetwork": "s"}] * 2), "networks must be distinct"),
    (NODE, gcp("e2-medium", reservationAffinity={"type": "SPECIFIC_RESERVATION"}), "needs a reservation"),
    (NODE, {"name": "One"}, "resource.name"),
    (MANAGER, {"distributionPolicyTargetShape": "BALANCED"}, "needs NONE"),
    (MANAGER, {"region": "us-east1", "distributionPolicyZones": ["us-west1-a"]}, "not a zone of us-east1"),
    (MANAGER, {"targetSize": 2_001}, "0 to 2000"),
    ("gcp:compute/instanceGroupManager:InstanceGroupManager", {"targetSize": 1_001}, "0 to 1000"),
    (
        "gcp:compute/regionAutoscaler:RegionAutoscaler",
        {"autoscalingPolicy": {"minReplicas": 3, "maxReplicas": 2}},
        "minReplicas 3",
    ),
    (
        "gcp:compute/regionResizeRequest:RegionResizeRequest",
        {"requestedRunDuration": {"seconds": "60"}},
        "600 to 604800",
    ),
    (
        "gcp:compute/reservation:Reservation",
        {
            "zone": "us-central1-a",
            "specificReservation": {"instanceProperties": {"machineType": "a3-highgpu-4g"}},
        },
        "no reservation of a3-highgpu-4g",
    ),
    ("gcp:compute/disk:Disk", {"name": "d", "zone": "us-central1a"}, "field 'zone'"),
    (
        "gcp:compute/resourcePolicy:ResourcePolicy",
        {"groupPlacementPolicy": {"collocation": "COLLOCATED", "maxDistance": 4}},
        "1 to 3",
    ),
    (
        "gcp:compute/resourcePolicy:ResourcePolicy",
        {"groupPlacementPolicy": {}, "workloadPolicy": {}},
        "conflicts with groupPlacementPolicy",
    ),
    ("gcp:compute/network:Network", {"name": "n", "mtu": 9_000}, "1300 to 8896"),
    ("gcp:compute/disk:Disk", {"name": "d", "type": "hyperdisk-balanced", "size": 1}, "4 to 65536"),
    (MACHINE, azure("Standard_NC4as_T4_v3", evictionPolicy="Delete"), "Spot only"),
    (MACHINE, azure("Standard_NC4as_T4_v3", osProfile={}), "SSH keys or a password"),
    (MACHINE, azure("Standard_NC4as_T4_v3", osProfile={"customData": "?"}), "must be base64"),
    (MACHINE, azure("Standard_NC4as_T4_v3", zones=["1", "2"]), "in one zone"),
    (MACHINE, azure("Standard_NC4as_T4_v3", zones=["4"]), "'1', '2' or '3'"),
    (
        MACHINE,
        azure(
            "Standard_D2_v5",
            storageProfile={"osDisk": {"managedDisk": {"storageAccountType": "Premium_LRS"}}},
        ),
        "does not support Premium_LRS",
    ),
    (
        MACHINE,
        azure("Standard_ND96asr_v4", securityProfile={"securityType": "TrustedLaunch"}),
        "does not support Trusted",
    ),
    (MACHINE, azure("Standard_NC6s_v3"), "is retired"),
    (MACHINE, azure("Standard_ND48isr_H100_v5"), "is not valid"),
    (
        MACHINE,
        azure("Standard_D2s_v5", capacityReservation={"capacityReservationGroup": {"id": "mine"}}),
        "LinkedInvalidPropertyId",
    ),
    (MACHINE, azure("Standard_ND96isr_H100_v5", **IN_GROUP), "no capacity reservations of"),
    (MACHINE, azure("Standard_D2s_v5", availabilitySet={"id": "a"}, **IN_GROUP), "availabilitySet cannot be"),
    (MACHINE, azure("Standard_D2s_v5", tags={"a/b": "c"}), "InvalidTagName"),
    (MACHINE, azure("D4", storageProfile={"dataDisks": [{"diskSizeGB": 0}]}), "1 to 65536, got 0"),
    (AZURE_HELD, {"sku": {"name": "Standard_D2s_v5"}}, "sku.capacity must be set"),
    (AZURE_HELD, {"sku": {"name": "Standard_ND96isr_H100_v5", "capacity": 1}}, "do not support"),
    (SET, scale_set(profile=IN_GROUP, platformFaultDomainCount=2), "at most 1 with a capacity reservation"),
    (SET, scale_set(profile=IN_GROUP, singlePlacementGroup=True), "needs singlePlacementGroup false"),
    (
        SET,
        {"sku": {"name": "Standard_ND96isr_H100_v5", "capacity": 150}, "virtualMachineProfile": {}},
        "at most 100, got 150",
    ),
    (
        SET,
        scale_set(profile={"storageProfile": {"osDisk": {"deleteOption": "Delete"}}}),
        "Flexible scale sets only",
    ),
    (SET, scale_set(spotRestorePolicy={"enabled": True}), "needs priority Spot"),
    (SET, scale_set(zones=["1", "2"], platformFaultDomainCount=2), "1 or 5 over several zones"),
    (
        SET,
        scale_set(profile={"osProfile": {"computerNamePrefix": "x" * 60, **LINUX["osProfile"]}}),
        "1 to 58",
    ),
    (
        "azure-native:monitor:AutoscaleSetting",
        {"profiles": [{"capacity": {"minimum": "3", "default": "1", "maximum": "4"}}]},
        "minimum <=",
    ),
    (
        "azure-native:network:PublicIPAddress",
        {"sku": {"name": "Standard"}},
        "Standard public address is Static",
    ),
    (
        "azure-native:network:BastionHost",
        {"sku": {"name": "Basic"}, "enableTunneling": True},
        "needs SKU Standard",
    ),
    (
        "azure-native:network:BastionHost",
        {"ipConfigurations": [{"subnet": {"id": "/subnets/hosts"}}]},
        "must be called AzureBastionSubnet",
    ),
    (
        "azure-native:network:Subnet",
        {"subnetName": "AzureBastionSubnet", "addressPrefix": "10.0.0.0/27"},
        "/26 or larger",
    ),
    ("azure-native:network:NatGateway", {"sku": {"name": "Standard"}, "zones": ["1", "2"]}, "in one zone"),
    ("azure-native:network:NetworkSecurityGroup", {"securityRules": [{"priority": 50}]}, "100 to 4096"),
    ("azure-native:azurefleet:Fleet", {"vmSizesProfile": [{"name": "a"}]}, "must be set"),
    (INSTANCE, {"instanceType": "g5.xlarge", "availabilityZone": "us-east-2d"}, "Invalid availability zone"),
    (
        INSTANCE,
        {"instanceType": "p5.48xlarge", "availabilityZone": "ca-central-1a"},
        "choose ca-central-1d",
    ),
    (INSTANCE, {"instanceType": "g5.48xlarge", "ebsBlockDevices": [{}] * 9}, "at most 8, got 9"),
    (NODE, gcp("g2-standard-8", zone="us-east1-a"), "us-east1-a does not exist"),
    (NODE, gcp("g2-standard-8", zone="me-west1-a"), "does not exist in zone me-west1-a"),
    (
        NODE,
        gcp("n1-standard-8", zone="us-west4-c", guestAccelerators=[{"type": "nvidia-tesla-t4", "count": 1}]),
        "T4 does not exist in zone us-west4-c",
    ),
    (MACHINE, azure("Standard_ND96asr_v4", location="eastus2"), "not available in location eastus2"),
    (MACHINE, azure("Standard_NC4as_T4_v3", location="West US", zones=["1"]), "no availability zones"),
    (
        MACHINE,
        azure("Standard_NC4as_T4_v3", storageProfile={"dataDisks": [{"lun": n} for n in range(9)]}),
        "is 8, got 9",
    ),
    (SET, scale_set(profile={"storageProfile": {"osDisk": {"diskSizeGB": 8192}}}), "at most 4,095 GiB"),
    (
        MACHINE,
        {
            "osProfile": {
                "linuxConfiguration": {"ssh": {"publicKeys": [{"keyData": "ecdsa-sha2-nistp256 A"}]}}
            }
        },
        "only RSA and Ed25519",
    ),
    ("gcp:compute/network:Network", {"name": "one", "mtu": 9000}, "got 9000"),
]
LEGAL = [
    (
        INSTANCE,
        {"ami": "ami-1", "instanceType": "g5.2xlarge", "instanceMarketOptions": SPOT, "userData": "x"},
    ),
    (
        TEMPLATE,
        {
            "instanceType": "p4d.24xlarge",
            "networkInterfaces": [EFA, {**EFA, "networkCardIndex": 3, "deviceIndex": 1}],
        },
    ),
    (SCHEDULE, {"desiredCapacity": 0, "startTime": "2099-12-31T10:50:00Z"}),
    (NODE, gcp("a3-highgpu-8g", FLEX, reservationAffinity=NO_RESERVATION)),
    (NODE, gcp("n1-standard-8", guestAccelerators=[{"type": "nvidia-tesla-t4", "count": 2}])),
    (MACHINE, azure("Standard_NC24ads_A100_v4", zones=["1"], **IN_GROUP, **LINUX)),
    (
        SET,
        {
            "sku": {"name": "Standard_ND96isr_H200_v5", "capacity": 100},
            "virtualMachineProfile": LINUX,
            "zones": ["1"],
        },
    ),
]


def find_refusals(token, inputs):
    """Return constraint -> reasons."""
    found = {check.__name__: [reason for _, reason in check(inputs)] for check in CHECKS[token]}
    return {name: reasons for name, reasons in found.items() if reasons}


@pytest.mark.parametrize(("token", "inputs", "reason"), ILLEGAL, ids=[case[2] for case in ILLEGAL])
def test_illegal_inputs_are_refused(token, inputs, reason):
    refusals = find_refusals(token, inputs)
    assert any(reason in text for reasons in refusals.values() for text in reasons), refusals


@pytest.mark.parametrize(("token", "inputs"), LEGAL)
def test_legal_inputs_are_accepted(token, inputs):
    assert find_refusals(token, inputs) == {}


def test_every_constraint_refuses_something_here_and_names_its_source():
    fired = {name for token, inputs, _ in ILLEGAL for name in find_refusals(token, inputs)}
    assert set(SOURCES) - fired == set()
    assert [name for name, source in SOURCES.items() if len(source) < 10] == []


def test_ebs_limits_are_those_of_ec2s_create_volume():
    request = botocore.session.get_session().get_service_model("ec2").shape_for("CreateVolumeRequest")
    text = {
        key: re.sub(r"<[^>]+>|,", "", request.members[key].documentation)
        for key in ("Size", "Iops", "Throughput")
    }
    sizes = {
        kind: (int(smallest), int(largest))
        for kinds, smallest, largest in re.findall(
            r"([a-z][a-z0-9]+(?: and [a-z0-9]+)?): (\d+) - (\d+) GiB", text["Size"]
        )
        for kind in kinds.split(" and ")
    }
    iops = {kind: int(most) for kind, most in re.findall(r"([a-z]+\d): [^-]*- (\d+)", text["Iops"])}
    throughput = re.findall(
        r"supported for (\w+) volumes only.*range: \d+ - (\d+)", text["Throughput"].lower()
    )
    assert throughput == [("gp3", "2000")]
    assert {
        kind: (*sizes[kind], iops.get(kind, 0), 2_000 if kind == "gp3" else 0) for kind in sizes
    } == VOLUME_LIMITS
