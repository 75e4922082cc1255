"""What an Azure virtual machine, or the machine profile of a scale set or fleet, asks for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.terms import PurchaseTerms
from gpufleet.cost.inputs.values import (
    Number,
    Text,
    read_input,
    read_input_list,
    read_input_marker,
    read_input_number,
    read_input_text,
    text_if_known,
)
from gpufleet.cost.pricing.component import (
    Components,
    MachinePartContext,
    ReservationClaim,
)
from gpufleet.cost.pricing.pricers.azure.disk import AttachedDisks, parse_storage_profile
from gpufleet.cost.pricing.pricers.licence import system_licence_components
from gpufleet.cost.pricing.pricers.part_names import ADDRESS
from gpufleet.cost.pricing.pricers.required_input import unpriced_if_unreadable
from gpufleet.engine import StateResource, UnreadableValue

RESERVATION_GROUP = "azure-native:compute:CapacityReservationGroup"
OUTSIDE_STACK = "outside this stack"  # the target of a reservation group that no resource here is
RESERVATION_PATH = ("capacityReservation", "capacityReservationGroup", "id")
INTERFACES_PATH = ("networkProfile", "networkInterfaceConfigurations")
LICENCES_BROUGHT = ("Windows_Server", "Windows_Client", "RHEL_BYOS", "SLES_BYOS")
# Publishers of Windows images (learn.microsoft.com, "Find and use Azure Marketplace VM images").
WINDOWS_PUBLISHERS = ("microsoftwindowsserver", "microsoftwindowsdesktop", "microsoftvisualstudio")
SQL_SERVER_PUBLISHER = "microsoftsqlserver"  # on Windows where the offer's name ends so: sql2022-ws2022
LINUX_PUBLISHERS = (
    "redhat",
    "suse",
)  # those that bill their images; the offer tells of a licence that is brought


@dataclass(frozen=True)
class VirtualMachineInputs:
    """The inputs of a virtual machine or of a machine profile.

    ``licensed_system`` is the system that bills by the hour, empty for Linux and a licence that is brought, None if the
    image is not known.
    ``public_address_count`` is what a profile gives each of its machines. ``targets_reservation`` is whether
    it names a capacity reservation group.
    """

    size: Text
    is_spot: bool | UnreadableValue | None
    max_spot_price: Number
    licensed_system: str | None
    disks: AttachedDisks
    public_address_count: int
    hidden_interfaces: UnreadableValue | None
    targets_reservation: bool


def parse_virtual_machine_inputs(inputs: Any) -> VirtualMachineInputs:
    """Parse a virtual machine or a machine profile."""
    interfaces = read_input_list(inputs, *INTERFACES_PATH)
    ip_configurations = [
        each for interface in interfaces for each in read_input_list(interface, "ipConfigurations")
    ]
    return VirtualMachineInputs(
        size=read_input_text(inputs, "hardwareProfile", "vmSize"),
        is_spot=_parse_spot(inputs),
        max_spot_price=read_max_spot_price(inputs, "billingProfile", "maxPrice"),
        licensed_system=_parse_licensed_system(inputs),
        disks=parse_storage_profile(read_input(inputs, "storageProfile")),
        public_address_count=sum(
            read_input(each, "publicIPAddressConfiguration") is not None for each in ip_configurations
        ),
        hidden_interfaces=read_input_marker(inputs, *INTERFACES_PATH),
        targets_reservation=read_input(inputs, *RESERVATION_PATH) is not None,
    )


def read_max_spot_price(inputs: Any, *path: str | int) -> Number:
    """Return the maximum price of spot; None for -1, which is up to on-demand."""
    return None if read_input(inputs, *path) in (-1, "-1") else read_input_number(inputs, *path)


def with_max_spot_price(terms: PurchaseTerms, max_price: Number) -> PurchaseTerms:
    """Return the terms with the maximum price of spot, if there is one."""
    return replace(terms, max_price=max_price) if isinstance(max_price, Decimal) else terms


def licence_components(machine: VirtualMachineInputs) -> Components:
    """Return the licence that a machine bills, unless the program brings one."""
    return system_licence_components(machine.licensed_system)


def profile_public_ip_components(machine: VirtualMachineInputs, context: MachinePartContext) -> Components:
    """Return the public addresses that a profile gives its machines."""
    hidden = unpriced_if_unreadable(machine.hidden_interfaces, "its network cards are", ADDRESS)
    if not machine.public_address_count:
        return [*hidden]
    return [*hidden, context.make_part_component(ADDRESS, ADDRESS, Decimal(machine.public_address_count))]


def make_reservation_claim(
    resource: StateResource, graph: ResourceGraph, path: tuple[str | int, ...]
) -> ReservationClaim:
    """Return the capacity reservation group that the input at ``path`` names: Azure matches none implicitly."""
    group = graph.find_referenced_resource(resource, path, RESERVATION_GROUP)
    return ReservationClaim(target_urn=group.urn if group else OUTSIDE_STACK)


def _parse_spot(inputs: Any) -> bool | UnreadableValue | None:
    """Return whether the priority is spot; None if there is none."""
    priority = read_input_text(inputs, "priority")
    return priority in ("Spot", "Low") if isinstance(priority, str) else priority


def _parse_licensed_system(inputs: Any) -> str | None:
    if read_input_text(inputs, "licenseType") in LICENCES_BROUGHT:
        return ""
    reference = read_input(inputs, "storageProfile", "imageReference")
    publisher, offer, sku = (
        (text_if_known(read_input_text(reference, key)) or "").lower()
        for key in ("publisher", "offer", "sku")
    )
    is_sql_server = publisher == SQL_SERVER_PUBLISHER and "-ws" in offer
    has_windows_settings = isinstance(read_input(inputs, "osProfile", "windowsConfiguration"), dict)
    boots_windows = read_input_text(inputs, "storageProfile", "osDisk", "osType") == "Windows"
    if has_windows_settings or boots_windows or is_sql_server or publisher in WINDOWS_PUBLISHERS:
        return f"windows sql {sku}" if is_sql_server else "windows"
    if read_input_marker(reference, "publisher"):
        return None
    return f"{publisher} {offer} {sku}" if publisher in LINUX_PUBLISHERS else ""
