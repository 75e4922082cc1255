"""What an Azure virtual machine, or the machine profile of a scale set or fleet, asks for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import Graph
from gpufleet.cost.inputs.terms import Terms
from gpufleet.cost.inputs.values import (
    Number,
    Text,
    read_list,
    read_marker,
    read_number,
    read_text,
    read_value,
)
from gpufleet.cost.pricing.component import Components, PartContext, ReservationClaim, UnpricedComponent
from gpufleet.cost.pricing.pricers.azure.disk import AttachedDisks, parse_storage_profile
from gpufleet.cost.pricing.pricers.part_names import ADDRESS
from gpufleet.cost.pricing.pricers.required_input import unreadable_components
from gpufleet.engine import StateResource, ValueMarker

RESERVATION_GROUP = "azure-native:compute:CapacityReservationGroup"
OUTSIDE_STACK = "outside this stack"  # the target of a reservation group that no resource here is
RESERVATION_PATH = ("capacityReservation", "capacityReservationGroup", "id")
INTERFACES_PATH = ("networkProfile", "networkInterfaceConfigurations")
LICENCES_BROUGHT = ("Windows_Server", "Windows_Client")


@dataclass(frozen=True)
class MachineInputs:
    """The inputs of a virtual machine or of a machine profile.

    ``public_address_count`` is what a profile gives each of its machines. ``targets_reservation`` is whether
    it names a capacity reservation group.
    """

    size: Text
    is_spot: bool | ValueMarker | None
    max_spot_price: Number
    needs_windows_licence: bool
    disks: AttachedDisks
    public_address_count: int
    hidden_interfaces: ValueMarker | None
    targets_reservation: bool


def parse_machine(inputs: Any) -> MachineInputs:
    """Parse a virtual machine or a machine profile."""
    interfaces = read_list(inputs, *INTERFACES_PATH)
    ip_configurations = [
        each for interface in interfaces for each in read_list(interface, "ipConfigurations")
    ]
    return MachineInputs(
        size=read_text(inputs, "hardwareProfile", "vmSize"),
        is_spot=_parse_spot(inputs),
        max_spot_price=read_number(inputs, "billingProfile", "maxPrice"),
        needs_windows_licence=_parse_windows_licence(inputs),
        disks=parse_storage_profile(read_value(inputs, "storageProfile")),
        public_address_count=sum(
            read_value(each, "publicIPAddressConfiguration") is not None for each in ip_configurations
        ),
        hidden_interfaces=read_marker(inputs, *INTERFACES_PATH),
        targets_reservation=read_value(inputs, *RESERVATION_PATH) is not None,
    )


def with_max_price(terms: Terms, max_price: Number) -> Terms:
    """Return the terms with the maximum price of spot; -1, up to on-demand, is not a number here."""
    return replace(terms, max_price=max_price) if isinstance(max_price, Decimal) else terms


def licence_components(machine: MachineInputs) -> Components:
    """Return the Windows licence that a machine bills, unless the program brings one."""
    if not machine.needs_windows_licence:
        return []
    return [
        UnpricedComponent(
            "its Windows licence is not included: these prices are for Linux machines", "licence"
        )
    ]


def profile_address_components(machine: MachineInputs, context: PartContext) -> Components:
    """Return the public addresses that a profile gives its machines."""
    hidden = unreadable_components(machine.hidden_interfaces, "its network cards are", ADDRESS)
    if not machine.public_address_count:
        return [*hidden]
    return [*hidden, context.part_component(ADDRESS, ADDRESS, Decimal(machine.public_address_count))]


def reservation_claim(resource: StateResource, graph: Graph, path: tuple[str | int, ...]) -> ReservationClaim:
    """Return the capacity reservation group that the input at ``path`` names: Azure matches none implicitly."""
    group = graph.find_target(resource, path, RESERVATION_GROUP)
    return ReservationClaim(target_urn=group.urn if group else OUTSIDE_STACK)


def _parse_spot(inputs: Any) -> bool | ValueMarker | None:
    """Return whether the priority is spot; None if there is none."""
    priority = read_text(inputs, "priority")
    return priority in ("Spot", "Low") if isinstance(priority, str) else priority


def _parse_windows_licence(inputs: Any) -> bool:
    has_windows_settings = isinstance(read_value(inputs, "osProfile", "windowsConfiguration"), dict)
    boots_windows = read_text(inputs, "storageProfile", "osDisk", "osType") == "Windows"
    return (has_windows_settings or boots_windows) and (
        read_text(inputs, "licenseType") not in LICENCES_BROUGHT
    )
