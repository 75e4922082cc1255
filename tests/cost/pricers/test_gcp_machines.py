"""Google's machines: what an unreadable input takes along, which reservation they use, and the hours of their parts."""

from __future__ import annotations

from decimal import Decimal

import pytest

from gpufleet.catalog import Price
from gpufleet.cost import PriceBook, price_resources
from gpufleet.engine import StateResource, UnreadableValue

HIDDEN = UnreadableValue.UNKNOWN
ZONE = {"zone": "us-central1-a"}
INSTANCE, GROUP = (
    "gcp:compute/instance:Instance",
    "gcp:compute/instanceGroupManager:InstanceGroupManager",
)
TEMPLATE, RESERVATION = (
    "gcp:compute/instanceTemplate:InstanceTemplate",
    "gcp:compute/reservation:Reservation",
)
CLUSTER, ADDRESS = "gcp:container/cluster:Cluster", "gcp:compute/address:Address"
TPU, DISK = "gcp:tpu/v2Vm:V2Vm", "gcp:compute/disk:Disk"


def price_of_each(cloud, region, item, purchase):
    return Price(1.0, "unit", "2026-07-06", "written by hand", "high", region, purchase)


def make(type_, inputs, name="it", parent=None):
    urn = f"urn:pulumi:prod::p::{type_}::{name}"
    return StateResource(urn, type_, name, {"name": name, **inputs}, {}, parent=parent)


def price(*resources):
    """Return the charges of what is named it by component, and the reasons of what has no price."""
    bill = price_resources(resources, PriceBook(price_of_each, price_of_each))
    charges = {each.component: each for each in bill.charges if each.urn.endswith("::it")}
    return charges, {each.component: each.reason for each in bill.unpriced_resources}


def test_unknown_size_of_a_group_is_the_reason_of_each_of_its_parts():
    machine = {
        "machineType": "n1-standard-8",
        "guestAccelerators": [{"type": "nvidia-tesla-t4", "count": 1}],
        "disks": [{"diskSizeGb": 100}, {"type": "SCRATCH"}],
        "networkInterfaces": [{"accessConfigs": [{}]}],
    }
    group = make(GROUP, {**ZONE, "targetSize": HIDDEN, "versions": [{"instanceTemplate": "t"}]})
    charges, reasons = price(make(TEMPLATE, machine, "t"), group)
    parts = ("machine", "accelerators", "disk:boot", "disk:local0", "public_ipv4")
    assert (charges, reasons) == ({}, dict.fromkeys(parts, "group size is not known until deployment"))


@pytest.mark.parametrize(("reserved", "covered"), [("a", {"a:machine"}), ("b", {"b:machine"})])
def test_pool_inside_a_cluster_uses_the_reservation_that_it_names(reserved, covered):
    pools = [
        {"name": name, "nodeCount": 1, "nodeConfig": {"machineType": "n2-standard-8"}} for name in ("a", "b")
    ]
    for pool in pools:
        refused = {"consumeReservationType": "NO_RESERVATION"}
        named = {"consumeReservationType": "SPECIFIC_RESERVATION", "values": ["r"]}
        pool["nodeConfig"]["reservationAffinity"] = named if pool["name"] == reserved else refused
    machines = {"count": 1, "instanceProperties": {"machineType": "n2-standard-8"}}
    reservation = make(
        RESERVATION, {**ZONE, "specificReservation": machines, "specificReservationRequired": True}, "r"
    )
    charges, _ = price(reservation, make(CLUSTER, {"location": "us-central1-a", "nodePools": pools}))
    assert {name for name, charge in charges.items() if charge.purchase == "covered"} == covered


def test_tpu_with_a_version_and_no_topology_is_not_a_v2():
    charges, reasons = price(make(TPU, {**ZONE, "acceleratorConfig": {"type": "V5P"}}))
    assert (charges, reasons) == ({}, {"machine": "unknown TPU type V5P"})


def test_speed_of_a_disk_of_unknown_size_has_a_price():
    disk = make(DISK, {**ZONE, "type": "hyperdisk-balanced", "size": HIDDEN, "provisionedIops": 5000})
    charges, reasons = price(disk)
    assert {name: charge.quantity.expected for name, charge in charges.items()} == {"disk:iops": 2000}
    assert reasons == {"disk": "size is not known until deployment"}


@pytest.mark.parametrize(("purchase", "machine_hours"), [("on_demand", 100), ("reserved_1y", 730)])
def test_hours_of_a_pool_are_those_of_its_machines_and_not_of_a_static_address(purchase, machine_hours):
    labels = {"labels": {"gpufleet-hours-per-month": "100", "gpufleet-purchase": purchase}}
    network = {"networkInterfaces": [{"accessConfigs": [{}]}]}
    boot = {"bootDisk": {"initializeParams": {"size": 10}}}
    pool = "urn:pulumi:prod::p::gpufleet:cloud:GcpPool::train"  # labels set hours in a pool only
    inputs = {**ZONE, "machineType": "n2-standard-8", **network, **boot, **labels}
    machine, _ = price(make(INSTANCE, inputs, parent=pool))
    hours = {name: charge.hours_per_month for name, charge in machine.items()}
    assert hours == {"machine": machine_hours, "public_ipv4": 100, "disk:boot": 730}
    address, _ = price(make(ADDRESS, {"region": "us-central1", **labels}, parent=pool))
    assert address["public_ipv4"].usd_per_month.expected == Decimal(730)
