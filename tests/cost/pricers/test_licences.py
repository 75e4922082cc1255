"""Test machines of licensed systems: priced with their system where the price list has it, listed otherwise."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

from gpufleet import cost
from gpufleet.catalog import Price
from gpufleet.cost.pricing.commitments.model import CommitmentFile
from gpufleet.cost.pricing.pricers.licence import system_licence_components
from gpufleet.engine import StateResource

PRICES = {
    ("aws", "us-east-1", "m5.large"): 0.096,
    ("aws", "us-east-1", "m5.large:windows"): 0.188,
    ("aws", "us-east-1", "m5.large:rhel"): 0.125,
    ("aws", "us-east-1", "m5.xlarge"): 0.192,
    ("aws", "us-east-1", "g5.xlarge"): 1.006,
    ("azure", "eastus", "Standard_D2s_v5"): 0.096,
    ("azure", "eastus", "Standard_D2s_v5:windows"): 0.188,
    ("gcp", "us-central1", "n2-standard-4"): 0.2,
    ("gcp", "us-central1", "n2-standard-4:windows"): 0.384,
    ("gcp", "us-central1", "n2-standard-4:sles-sap"): 0.61,
}
INSTANCE = "aws:ec2/instance:Instance"
AZURE = "azure-native:compute:VirtualMachine"
GCP = "gcp:compute/instance:Instance"


def find_price(cloud, region, item, purchase):
    usd = PRICES.get((cloud, region, item)) if purchase == "on_demand" else None
    return None if usd is None else Price(usd, "machine", "2026-01-01", "by hand", "high", region, purchase)


def price(*resources, **options):
    return cost.price_resources(resources, cost.PriceBook(find_price, lambda *_: None), **options)


def resource(type_, inputs, name="a"):
    return StateResource(f"urn:pulumi:prod::p::{type_}::{name}", type_, name, inputs, {})


def ec2(machine="m5.large", name="a", **inputs):
    return resource(INSTANCE, {"instanceType": machine, "region": "us-east-1", **inputs}, name)


def azure_vm(image=None, **inputs):
    profile = {"storageProfile": {"imageReference": image or {}}}
    size = {"hardwareProfile": {"vmSize": "Standard_D2s_v5"}, "location": "eastus"}
    return resource(AZURE, {**size, **profile, **inputs})


def gcp_vm(image):
    disk = {"initializeParams": {"image": image}}
    return resource(GCP, {"machineType": "n2-standard-4", "zone": "us-central1-a", "bootDisk": disk})


def machines(bill):
    return {
        charge.item: charge.usd_per_hour.expected for charge in bill.charges if charge.component == "machine"
    }


def licences(bill):
    return [gap.reason for gap in bill.unpriced_resources if gap.component.startswith("licence")]


WINDOWS_IMAGE = {"publisher": "MicrosoftWindowsServer", "offer": "WindowsServer", "sku": "2022-datacenter"}
SQL_IMAGE = {"publisher": "MicrosoftSQLServer", "offer": "sql2022-ws2022", "sku": "standard-gen2"}


@pytest.mark.parametrize(
    ("machine", "item", "usd", "listed"),
    [
        (ec2(), "m5.large", "0.096", []),
        (ec2(getPasswordData=True), "m5.large:windows", "0.188", []),
        (ec2(ami="RHEL-9.4_HVM-20240605-x86_64"), "m5.large:rhel", "0.125", []),
        (ec2(ami="resolve:ssm:/aws/service/suse/sles/15-sp5/x86_64/latest"), "m5.large", "0.096", ["SUSE"]),
        (ec2("g5.xlarge", getPasswordData=True), "g5.xlarge", "1.006", ["Windows"]),
        (ec2(ami="Windows_Server-2022-English-Full-SQL_2022_Express"), "m5.large:windows", "0.188", []),
        (ec2(ami="Windows_Server-2022-English-Full-SQL_2022_Web"), "m5.large:windows", "0.188", ["SQL Server"]),
        (azure_vm(WINDOWS_IMAGE), "Standard_D2s_v5:windows", "0.188", []),
        (azure_vm(WINDOWS_IMAGE, licenseType="Windows_Server"), "Standard_D2s_v5", "0.096", []),
        (azure_vm(osProfile={"windowsConfiguration": {}}), "Standard_D2s_v5:windows", "0.188", []),
        (azure_vm(SQL_IMAGE), "Standard_D2s_v5:windows", "0.188", ["SQL Server"]),
        (azure_vm(SQL_IMAGE | {"sku": "sqldev-gen2"}), "Standard_D2s_v5:windows", "0.188", []),
        (azure_vm({"publisher": "RedHat", "offer": "RHEL", "sku": "9-lvm"}), "Standard_D2s_v5", "0.096", ["Red Hat"]),
        (azure_vm({"publisher": "RedHat", "offer": "rhel-byos", "sku": "9"}), "Standard_D2s_v5", "0.096", []),
        (azure_vm({"publisher": "SUSE", "offer": "opensuse-leap-15-5", "sku": "gen2"}), "Standard_D2s_v5", "0.096", []),
        (gcp_vm("windows-cloud/windows-2022"), "n2-standard-4:windows", "0.384", []),
        (gcp_vm("projects/suse-sap-cloud/global/images/family/sles-15-sap"), "n2-standard-4:sles-sap", "0.61", []),
        (gcp_vm("rhel-cloud/rhel-9"), "n2-standard-4", "0.2", ["Red Hat"]),
        (gcp_vm("windows-sql-cloud/sql-std-2022-win-2022-windows"), "n2-standard-4:windows", "0.384", ["SQL Server"]),
    ],
)  # fmt: skip
def test_a_machine_is_priced_with_its_system_or_its_licence_is_listed(machine, item, usd, listed):
    bill = price(machine)
    assert machines(bill) == {item: Decimal(usd)}
    assert len(licences(bill)) == len(listed)
    assert all(brand in reason for brand, reason in zip(listed, licences(bill), strict=True))


def group(*types):
    overrides = [{"instanceType": each} for each in types]
    template = resource(
        "aws:ec2/launchTemplate:LaunchTemplate",
        {"imageId": "Windows_Server-2022", "instanceType": types[0], "region": "us-east-1", "name": "t"},
        "t",
    )
    launch = {
        "launchTemplate": {"launchTemplateSpecification": {"launchTemplateName": "t"}, "overrides": overrides}
    }
    sizes = {"minSize": 2, "maxSize": 2, "region": "us-east-1", "mixedInstancesPolicy": launch}
    return template, resource("aws:autoscaling/group:Group", sizes, "g")


def test_a_group_is_priced_with_its_system_if_every_type_has_a_price():
    assert machines(price(*group("m5.large"))) == {"m5.large:windows": Decimal("0.376")}
    mixed = price(*group("m5.large", "m5.xlarge"))
    assert machines(mixed) == {"m5.large": Decimal("0.192")}
    assert "Windows" in licences(mixed)[0]


def test_a_reservation_for_windows_covers_windows_machines():
    capacity = {"instanceType": "m5.large", "instanceCount": 1, "availabilityZone": "us-east-1a"}
    reservation = resource(
        "aws:ec2/capacityReservation:CapacityReservation",
        {**capacity, "instancePlatform": "Windows", "region": "us-east-1"},
        "r",
    )
    machine = ec2(getPasswordData=True, availabilityZone="us-east-1a")
    bill = price(reservation, machine)
    by_name = {charge.name: (charge.item, charge.usd_per_hour.expected) for charge in bill.charges}
    assert by_name == {"r": ("m5.large:windows", Decimal("0.188")), "a": ("m5.large:windows", Decimal(0))}
    assert licences(bill) == []


def reserved_instance(**fields):
    entry = {
        "id": "ri", "kind": "reserved_instance", "region": "us-east-1", "machine": "m5.large", "count": 1,
        "usd_per_hour": 0.05, "start": "2026-01-01", "end": "2027-01-01", "source": "invoice", **fields,
    }  # fmt: skip
    return CommitmentFile.model_validate({"commitments": [entry]}).commitments


def test_a_reserved_instance_of_linux_does_not_cover_windows():
    day = date(2026, 6, 1)
    windows, linux = ec2(getPasswordData=True, name="w"), ec2(name="l")
    bill = price(windows, linux, commitments=reserved_instance(), on_date=day)
    assert {charge.name: charge.purchase for charge in bill.charges} == {"w": "on_demand", "l": "covered"}
    other = price(windows, commitments=reserved_instance(platform="other"), on_date=day)
    assert [charge.purchase for charge in other.charges] == ["covered"]


def test_a_reservation_of_google_does_not_pay_the_licence():
    reservation = resource(
        "gcp:compute/reservation:Reservation",
        {
            "zone": "us-central1-a",
            "specificReservation": {"count": 1, "instanceProperties": {"machineType": "n2-standard-4"}},
        },
        "r",
    )
    bill = price(reservation, gcp_vm("windows-cloud/windows-2022"))
    assert sum(charge.usd_per_hour.expected for charge in bill.charges) == Decimal("0.2")
    assert licences(bill) == ["its licence is not covered by what pays for the machine"]


def test_plain_linux_and_brought_licences_bill_nothing():
    for name in ("Linux/UNIX", "", "opensuse-leap", "projects/cos-cloud/global/images/cos", "rhel-byos"):
        assert system_licence_components(name) == []
