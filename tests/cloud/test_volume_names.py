"""Test that nodes look for their volumes under the names that the components attach them as."""

from __future__ import annotations

import pytest

from gpufleet.nodes.pool_storage import list_disk_patterns

NAMES = ("models", "data")
TEMPLATES = {"plain": {"volumes": [{"name": name, "size_gib": 200, "kind": "ssd"} for name in NAMES]}}
# What AWS's names are on a node, and the links of udev's rules, is in the documents that list_disk_patterns names.
POOLS = {
    "aws": {"cloud": "aws", "machine": "g5.2xlarge"},
    "gcp": {"cloud": "gcp", "machine": "g2-standard-4"},
    "azure": {"cloud": "azure", "machine": "Standard_NC4as_T4_v3"},
}
GOOGLE_TEMPLATE = "RegionInstanceTemplate"


def list_attached(evaluated, cloud):
    """Return the pattern for each attached data disk, from the resources of a single node or of a group."""
    if cloud == "aws" and "VolumeAttachment" in evaluated.kinds:
        devices = [item["deviceName"] for item in evaluated.list_resources("VolumeAttachment")]
        return [f"ebs:{device.removeprefix('/dev/')}" for device in devices]
    if cloud == "aws":
        disks = evaluated.find_resource("LaunchTemplate")["blockDeviceMappings"][1:]
        return [f"ebs:{disk['deviceName'].removeprefix('/dev/')}" for disk in disks]
    if cloud == "gcp":
        is_group = "Instance" not in evaluated.kinds
        resource = evaluated.find_resource(GOOGLE_TEMPLATE if is_group else "Instance")
        disks = resource["disks"][1:] if is_group else resource["attachedDisks"]
        return [f"/dev/disk/by-id/google-{disk['deviceName']}" for disk in disks]
    is_group = "VirtualMachineScaleSet" in evaluated.kinds
    profile = (
        evaluated.find_resource("VirtualMachineScaleSet")["virtualMachineProfile"]
        if is_group
        else evaluated.find_resource("VirtualMachine")
    )
    return [f"/dev/disk/azure/scsi1/lun{disk['lun']:.0f}" for disk in profile["storageProfile"]["dataDisks"]]


@pytest.mark.parametrize("group", [{}, {"group": True}], ids=["single", "group"])
@pytest.mark.parametrize("cloud", POOLS)
def test_every_attached_disk_is_the_one_that_its_node_looks_for(evaluate, cloud, group):
    evaluated = evaluate({**POOLS[cloud], "count": 1, **group}, templates=TEMPLATES)
    expected = [list_disk_patterns(cloud, number, name)[0] for number, name in enumerate(NAMES)]
    assert sorted(list_attached(evaluated, cloud)) == sorted(expected)
