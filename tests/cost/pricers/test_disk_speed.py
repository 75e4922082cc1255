"""Speed of disks that bills next to their size: EBS io2 by tier, FSx, and Google's extreme disks and hyperdisks."""

from __future__ import annotations

from decimal import Decimal

import pytest

from gpufleet import cost
from gpufleet.engine import StateResource, UnreadableValue

HIDDEN = UnreadableValue.UNKNOWN
EBS, DISK = "aws:ebs/volume:Volume", "gcp:compute/disk:Disk"
IOWA, TOKYO, VIRGINIA = {"zone": "us-central1-a"}, "ap-northeast-1", "us-east-1"


def price(type_, inputs):
    """Return the month's charges by component, and the reasons of what has no price."""
    bill = cost.price_resources([StateResource(f"urn:pulumi:prod::p::{type_}::d", type_, "d", inputs, {})])
    charges = {each.component: round(each.usd_per_month.expected, 2) for each in bill.charges}
    return charges, {each.component: each.reason for each in bill.unpriced_resources}


@pytest.mark.parametrize(
    ("region", "iops", "expected"),
    [
        (VIRGINIA, 32000, {"disk:iops": 2080}),  # 32,000 x 0.065
        (VIRGINIA, 50000, {"disk:iops": 2080, "disk:iops:tier2": 819}),  # 18,000 x 0.0455
        (VIRGINIA, 70000, {"disk:iops": 2080, "disk:iops:tier2": 1456, "disk:iops:tier3": Decimal("191.1")}),
        (
            TOKYO,
            70000,
            {"disk:iops": 2368, "disk:iops:tier2": Decimal("1657.6"), "disk:iops:tier3": Decimal("217.56")},
        ),
    ],
)
def test_iops_of_an_io2_volume_bill_by_tier(region, iops, expected):
    size_usd = {VIRGINIA: Decimal("12.5"), TOKYO: Decimal("14.2")}[region]  # 100 GiB x 0.125 and 0.142
    inputs = {"availabilityZone": f"{region}a", "type": "io2", "size": 100, "iops": iops}
    assert price(EBS, inputs) == ({"disk": size_usd, **expected}, {})


def test_tokyo_has_prices_of_gp3_speed():
    """100 GiB x 0.096, 3,000 IOPS beyond the included x 0.006, 100 MiB/s x 0.048."""
    inputs = {"availabilityZone": f"{TOKYO}a", "type": "gp3", "size": 100, "iops": 6000, "throughput": 225}
    expected = {"disk": Decimal("9.6"), "disk:iops": 18, "disk:throughput": Decimal("4.8")}
    assert price(EBS, inputs) == (expected, {})


@pytest.mark.parametrize(("deployment", "usd"), [("MULTI_AZ_1", (307, 774)), ("SINGLE_AZ_1", (154, 464))])
def test_ontap_of_the_first_generation_has_prices_in_tokyo(deployment, usd):
    """1,024 GiB x 0.3 or 0.15, and 512 MBps x 1.511 or 0.906."""
    inputs = {
        "region": TOKYO,
        "deploymentType": deployment,
        "storageCapacity": 1024,
        "throughputCapacity": 512,
    }
    charges, reasons = price("aws:fsx/ontapFileSystem:OntapFileSystem", inputs)
    assert ({name: round(each) for name, each in charges.items()}, reasons) == (
        {"storage": usd[0], "throughput": usd[1]},
        {},
    )


def test_second_generation_of_ontap_is_not_priced_as_the_first():
    inputs = {
        "region": TOKYO,
        "deploymentType": "MULTI_AZ_2",
        "storageCapacity": 1024,
        "throughputCapacity": 384,
    }
    charges, reasons = price("aws:fsx/ontapFileSystem:OntapFileSystem", inputs)
    assert charges == {}
    assert "fsx_ontap:multi_az_2:throughput" in reasons["throughput"]


@pytest.mark.parametrize(
    ("type_", "iops", "usd"),
    [("pd-extreme", 30000, (125, 1950)), ("hyperdisk-extreme", 50000, (125, 1600))],  # x 0.065, x 0.032
)
def test_extreme_disk_bills_its_iops(type_, iops, usd):
    inputs = {**IOWA, "type": type_, "size": 1000, "provisionedIops": iops}
    assert price(DISK, inputs) == ({"disk": usd[0], "disk:iops": usd[1]}, {})


@pytest.mark.parametrize(
    ("iops", "reason"),
    [
        (None, "its iops, which bills, is chosen by Compute Engine"),
        (HIDDEN, "provisioned iops is not known until deployment"),
    ],
)
def test_unknown_iops_of_an_extreme_disk_are_listed(iops, reason):
    inputs = {**IOWA, "type": "pd-extreme", "size": 1000, "provisionedIops": iops}
    assert price(DISK, inputs) == ({"disk": 125}, {"disk:iops": reason})


def test_speed_of_a_hyperdisk_beyond_the_included_bills():
    fast = {"provisionedIops": 6000, "provisionedThroughput": 400}
    included = {"provisionedIops": 3000, "provisionedThroughput": 140}
    size = {"disk": 8}  # 100 x 0.08
    beyond = {**size, "disk:iops": 15, "disk:throughput": Decimal("10.4")}  # 3,000 x 0.005, 260 x 0.04
    for speed, expected in ((fast, beyond), (included, size)):
        charges = price(DISK, {**IOWA, "type": "hyperdisk-balanced", "size": 100, **speed})
        assert charges == (expected, {})


def test_speed_of_a_boot_disk_and_of_a_template_bills():
    boot = {"initializeParams": {"size": 500, "type": "hyperdisk-extreme", "provisionedIops": 20000}}
    charges, _ = price(
        "gcp:compute/instance:Instance", {**IOWA, "machineType": "n2-standard-80", "bootDisk": boot}
    )
    assert charges["disk:boot:iops"] == 640  # 20,000 x 0.032


def test_other_disks_bill_their_size_alone():
    for type_ in ("pd-ssd", "pd-balanced", None):
        charges, reasons = price(DISK, {**IOWA, "type": type_, "size": 100, "provisionedIops": 9000})
        assert (set(charges), reasons) == ({"disk"}, {})
