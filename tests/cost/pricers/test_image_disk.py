"""Test that a disk without a size has that of its image: exact where the image is known, else a range."""

from __future__ import annotations

from decimal import Decimal

import pytest

from gpufleet import cost
from gpufleet.boundary import read_packaged_rows
from gpufleet.catalog import find_cloud_part_price
from gpufleet.cost.pricing.image_disk import find_image_disk
from gpufleet.engine import StateResource

AL2023 = "resolve:ssm:/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"
EC2 = "aws:ec2/instance:Instance"
GCE = "gcp:compute/instance:Instance"
VM = "azure-native:compute:VirtualMachine"


def price_disk(type_, **inputs):
    """Return the charge of a machine's first disk and the reasons of what has no price."""
    resource = StateResource(
        urn=f"urn:pulumi:d::a::{type_}::m", type=type_, name="m", inputs=inputs, outputs={}
    )
    bill = cost.price_resources([resource])
    disks = [each for each in bill.charges if each.component.startswith("disk:")]
    return (disks[0] if disks else None), [each.reason for each in bill.unpriced_resources]


def months(cloud, region, item, amount):
    return Decimal(str(find_cloud_part_price(cloud, region, item, "on_demand").usd_per_hour)) * 730 * amount


@pytest.mark.parametrize(
    ("ami", "item", "least", "most"),
    [(AL2023, "ebs:gp3", 8, 8), ("<aws:ec2/getAmi:getAmi> ubuntu/images/*jammy-22.04*", "ebs:gp2", 8, 8),
     ("ami-0123456789", "ebs:gp3", 8, 30)],
)  # fmt: skip
def test_root_volume_has_the_size_and_type_of_its_image(ami, item, least, most):
    disk, gaps = price_disk(EC2, instanceType="m5.large", region="us-east-1", ami=ami)
    assert (disk.item, gaps) == (item, [])
    assert (disk.quantity.low, disk.quantity.high) == (least, most)
    assert disk.usd_per_month.expected == months("aws", "us-east-1", item, 8)
    assert disk.note.startswith("size of its image: 8")


def test_declared_type_has_the_size_of_the_image_and_a_snapshot_none():
    inputs = {"instanceType": "m5.large", "region": "us-east-1", "ami": AL2023}
    disk, _ = price_disk(EC2, **inputs, rootBlockDevice={"volumeType": "gp2"})
    assert (disk.item, disk.quantity.expected) == ("ebs:gp2", 8)
    mapping = [{"deviceName": "/dev/xvda", "ebs": {"snapshotId": "snap-1"}}]
    template = StateResource(
        urn="urn:pulumi:d::a::aws:ec2/launchTemplate:LaunchTemplate::t",
        type="aws:ec2/launchTemplate:LaunchTemplate",
        name="t",
        inputs={**inputs, "blockDeviceMappings": mapping},
        outputs={},
    )
    group = StateResource(
        urn="urn:pulumi:d::a::aws:autoscaling/group:Group::g",
        type="aws:autoscaling/group:Group",
        name="g",
        inputs={"region": "us-east-1", "minSize": 1, "maxSize": 1, "launchTemplate": {"id": "t"}},
        outputs={},
        property_dependencies={"launchTemplate": (template.urn,)},
    )
    reasons = [each.reason for each in cost.price_resources([template, group]).unpriced_resources]
    assert "size is not declared: its snapshot sets it" in reasons


@pytest.mark.parametrize(
    ("image", "least", "most"),
    [("debian-cloud/debian-12", 10, 10), ("windows-cloud/windows-2022", 50, 50), ("my-image", 10, 50)],
)
def test_boot_disk_of_compute_engine_has_the_size_of_its_image(image, least, most):
    boot = {"initializeParams": {"image": image}}
    disk, _ = price_disk(GCE, machineType="e2-medium", zone="us-central1-a", bootDisk=boot)
    assert (disk.item, disk.quantity.low, disk.quantity.high) == ("pd-standard", least, most)
    assert disk.usd_per_month.expected == months("gcp", "us-central1", "pd-standard", least)


@pytest.mark.parametrize(
    ("reference", "items"),
    [
        ({"publisher": "Canonical", "offer": "ubuntu-24_04-lts", "sku": "server"}, ("premium-ssd-p4",)),
        (
            {"publisher": "MicrosoftWindowsServer", "offer": "WindowsServer", "sku": "2022"},
            ("premium-ssd-p10",),
        ),
        ({"id": "/subscriptions/s/images/own"}, ("premium-ssd-p4", "premium-ssd-p10")),
    ],
)
def test_system_disk_of_azure_has_the_tier_that_fits_its_image(reference, items):
    storage = {"imageReference": reference, "osDisk": {"managedDisk": {"storageAccountType": "Premium_LRS"}}}
    inputs = {
        "location": "eastus",
        "hardwareProfile": {"vmSize": "Standard_D4s_v5"},
        "storageProfile": storage,
    }
    disk, _ = price_disk(VM, **inputs)
    prices = [months("azure", "eastus", item, 1) for item in items]
    assert (disk.item, disk.usd_per_month.expected, disk.usd_per_month.high) == (
        items[0],
        prices[0],
        prices[-1],
    )


def test_each_image_of_the_table_is_reachable_and_each_cloud_has_a_last_row():
    rows = list(read_packaged_rows("gpufleet.cost", "data/image_disks.csv"))
    for cloud in ("aws", "gcp", "azure"):
        assert (
            find_image_disk(cloud, "").image
            == [row["image"] for row in rows if row["cloud"] == cloud][-1]
            == "*"
        )
    for row in rows:
        found = find_image_disk(row["cloud"], row["image"].replace("*", " ").replace("?", "2"))
        assert found.image == row["image"], row
        assert found.gib <= found.most_gib
