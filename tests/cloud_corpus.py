"""Pools that the clouds refuse and pools that they accept, from tests/cases/cloud/illegal and legal."""

from __future__ import annotations

from pathlib import Path

import yaml

CASES = Path(__file__).resolve().parent / "cases/cloud"
REPORTED = yaml.safe_load(
    (CASES.parent / "fleet/reported.yaml").read_text()
)  # of tests/fleet/test_reported.py
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICnjZVo0X23w6Lv+MS0nX7ZSNB6ZUf6PUl3b3SBAbmnn test"
DEFAULTS = {
    "aws": {"region": "us-east-1", "zones": ["us-east-1a"], "machine": "p4d.24xlarge"},
    "gcp": {"region": "us-central1", "zones": ["us-central1-a"], "machine": "a2-megagpu-16g"},
    "azure": {"region": "eastus", "machine": "Standard_ND96amsr_A100_v4"},
}
# Requests that the simulated clouds accept; a case changes what makes its request illegal.
BASE_REQUESTS = {
    "aws:ec2/instance:Instance": {"ami": "ami-0123456789abcdef0", "instanceType": "p4d.24xlarge"},
    "aws:ec2/launchTemplate:LaunchTemplate": {
        "imageId": "ami-0123456789abcdef0",
        "instanceType": "p4d.24xlarge",
    },
    "aws:ec2/placementGroup:PlacementGroup": {"strategy": "cluster"},
    "aws:ec2/capacityReservation:CapacityReservation": {
        "availabilityZone": "us-east-1a",
        "instanceCount": 1,
        "instancePlatform": "Linux/UNIX",
        "instanceType": "p4d.24xlarge",
    },
    "aws:ec2/capacityBlockReservation:CapacityBlockReservation": {
        "capacityBlockOfferingId": "cb-0123456789abcdef0",
        "instancePlatform": "Linux/UNIX",
    },
    "aws:autoscaling/group:Group": {
        "minSize": 1,
        "maxSize": 2,
        "availabilityZones": ["us-east-1a"],
        "mixedInstancesPolicy": {
            "launchTemplate": {"launchTemplateSpecification": {"launchTemplateId": "lt-0123456789abcdef0"}}
        },
    },
    "gcp:compute/instance:Instance": {
        "machineType": "a2-highgpu-1g",
        "zone": "us-central1-a",
        "bootDisk": {"initializeParams": {"type": "pd-balanced"}},
        "networkInterfaces": [{"network": "default"}],
        "scheduling": {"onHostMaintenance": "TERMINATE"},
    },
    "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate": {
        "machineType": "a2-highgpu-1g",
        "region": "us-central1",
        "disks": [
            {
                "boot": True,
                "diskType": "pd-balanced",
                "sourceImage": "projects/ubuntu-os-cloud/global/images/one",
            }
        ],
        "networkInterfaces": [{"network": "default"}],
        "scheduling": {"onHostMaintenance": "TERMINATE"},
    },
    "gcp:compute/reservation:Reservation": {
        "zone": "us-central1-a",
        "specificReservation": {"count": 1, "instanceProperties": {"machineType": "a2-highgpu-1g"}},
    },
    "gcp:compute/regionResizeRequest:RegionResizeRequest": {
        "region": "us-central1",
        "instanceGroupManager": "group",
        "resizeBy": 1,
        "requestedRunDuration": {"seconds": "14400"},
    },
    "azure-native:compute:VirtualMachine": {
        "resourceGroupName": "group",
        "location": "eastus",
        "hardwareProfile": {"vmSize": "Standard_NC24ads_A100_v4"},
        "networkProfile": {"networkInterfaces": [{"id": "nic"}]},
        "osProfile": {
            "computerName": "node",
            "adminUsername": "ubuntu",
            "linuxConfiguration": {
                "disablePasswordAuthentication": True,
                "ssh": {"publicKeys": [{"path": "/home/ubuntu/.ssh/authorized_keys", "keyData": KEY}]},
            },
        },
        "storageProfile": {
            "imageReference": {
                "publisher": "microsoft-dsvm",
                "offer": "ubuntu-hpc",
                "sku": "2204",
                "version": "latest",
            },
            "osDisk": {"createOption": "FromImage", "managedDisk": {"storageAccountType": "Premium_LRS"}},
        },
    },
    "azure-native:compute:VirtualMachineScaleSet": {
        "resourceGroupName": "group",
        "location": "eastus",
        "orchestrationMode": "Uniform",
        "sku": {"name": "Standard_ND96amsr_A100_v4", "capacity": 2},
        "upgradePolicy": {"mode": "Manual"},
    },
    "azure-native:compute:CapacityReservation": {
        "resourceGroupName": "group",
        "location": "eastus",
        "capacityReservationGroupName": "held",
        "sku": {"name": "Standard_NC24ads_A100_v4", "capacity": 1},
    },
}
TEMPLATES = {"plain": {}, "scratch-2000": {"volumes": [{"name": "s", "size_gib": 2000, "kind": "nvme"}]}}


def load_cases(kind):
    """Return the cases of a folder, each with its cloud."""
    return [
        {"cloud": path.stem, **case}
        for path in sorted((CASES / kind).glob("*.yaml"))
        for case in yaml.safe_load(path.read_text())
    ]


def build_spec(case):
    """Return the spec of a case: one pool, with the cloud's large machine where the case names none."""
    pool = {
        "name": "train",
        "cloud": case["cloud"],
        "count": 1,
        "purchase": {"kind": "on_demand"},
        "template": "plain",
        **DEFAULTS[case["cloud"]],
        **case["pool"],
    }
    spec = {
        "owner": "research",
        "ssh": {"authorized_keys": [KEY], "allowed_cidrs": ["10.0.0.0/8"]},
        "pools": [pool],
        "templates": TEMPLATES,
        "azure": {"subscription": "00000000-1111-2222-3333-444444444444"},
    }
    return spec | ({"gcp": case["gcp"]} if "gcp" in case else {})


def case_id(case):
    return f"{case['cloud']}-{case['id']}"
