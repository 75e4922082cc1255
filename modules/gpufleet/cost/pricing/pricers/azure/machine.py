"""Azure virtual machines, and what they share with the machine profile of a scale set or a fleet.

Paths are of both packages: of azure-native first, then of ``azure:``, which has the same inputs one level higher.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from gpufleet.cost.inputs.values import number_if_known, text_if_known
from gpufleet.cost.money import ZERO
from gpufleet.cost.pricing.component import ReservationClaim
from gpufleet.cost.pricing.pricers.azure.disk import list_attached_disks
from gpufleet.cost.pricing.pricers.azure.location import pricer
from gpufleet.cost.pricing.pricers.licence import list_licences
from gpufleet.cost.pricing.pricers.part_names import ADDRESS
from gpufleet.cost.pricing.pricers.reader import Parts, Reader
from gpufleet.engine import UnreadableValue

RESERVATION_GROUP = "azure-native:compute:CapacityReservationGroup"
OUTSIDE_STACK = "outside this stack"  # the target of a reservation group that no resource here is
RESERVATION_PATHS = (
    "capacityReservation.capacityReservationGroup.id",
    "capacityReservationGroupID",
    "capacityReservationGroupId",
)
LICENCES_BROUGHT = ("Windows_Server", "Windows_Client", "RHEL_BYOS", "SLES_BYOS")
# Publishers of Windows images (learn.microsoft.com, "Find and use Azure Marketplace VM images").
WINDOWS_PUBLISHERS = ("microsoftwindowsserver", "microsoftwindowsdesktop", "microsoftvisualstudio")
IMAGE = "storageProfile.imageReference or sourceImageReference or storageImageReference"
SQL_SERVER_PUBLISHER = "microsoftsqlserver"  # on Windows where the offer's name ends so: sql2022-ws2022
# Those that bill their images; the offer tells of a licence that is brought.
LINUX_PUBLISHERS = ("redhat", "suse")
WINDOWS_TYPES = "azure:compute/windows"  # the resources whose type says the system
NETWORK_CARDS = "networkProfile.networkInterfaceConfigurations or networkInterfaces"


@pricer(
    "azure-native:compute:VirtualMachine",
    "azure:compute/linuxVirtualMachine:LinuxVirtualMachine",
    "azure:compute/virtualMachine:VirtualMachine",
    "azure:compute/windowsVirtualMachine:WindowsVirtualMachine",
)
def price_virtual_machine(machine: Reader) -> Parts:
    """Yield one virtual machine with its disks. A deallocated machine keeps them, so they bill all month."""
    bought = buy(machine)
    with bought.of("machine") as part:
        size = part.text("hardwareProfile.vmSize or size or vmSize", "machine size")
        component = part.machines(size)
        yield component and replace(component, claim=find_reservation_claim(machine))
    yield from list_attached_disks(bought.all_month(), describe_image(machine))
    yield from list_licences(bought, find_licensed_system(machine))


def buy(profile: Reader) -> Reader:
    """Return the reader of machines with the priority and the maximum price of their profile."""
    priority = profile.find_text("priority or scaleSetPriority")
    spot = priority in ("Spot", "Low") if isinstance(priority, str) else priority
    max_price = profile.find_number("billingProfile.maxPrice or maxBidPrice or spotMaxPrice")  # -1 is none
    return profile.bought(spot=spot, max_price=max_price)


def find_sizes_by_rank(mix: Reader, path: str) -> tuple[str, ...]:
    """Return the sizes of an instance mix, the one with the lowest rank first."""
    sizes = mix.entries(path, "machine sizes are")
    sizes.sort(key=lambda size: number_if_known(size.find_number("rank")) or ZERO)
    return tuple(size.text("name", "machine size") for size in sizes)


def list_profile_addresses(profile: Reader) -> Parts:
    """Yield the public addresses that a profile gives each of its machines."""
    with profile.of(ADDRESS) as part:
        configurations = [
            configuration
            for card in part.entries(NETWORK_CARDS, "its network cards are")
            for configuration in card.entries("ipConfigurations", "its network cards are")
        ]
        number = sum(
            each.has("publicIPAddressConfiguration") or bool(each.find_count("publicIpAddresses"))
            for each in configurations
        )
        yield part.part(ADDRESS, size=Decimal(number))


def find_reservation_claim(machine: Reader, place: str = "") -> ReservationClaim | None:
    """Return the capacity reservation group that an input names: Azure matches none implicitly.

    ``place`` is where the resource has the inputs of the machine.
    """
    path = " or ".join(f"{place}{key}" for key in RESERVATION_PATHS)
    if not machine.reading(machine.resource).has(path):
        return None
    group = machine.find_resource(path, RESERVATION_GROUP)
    return ReservationClaim(target_urn=group.urn if group else OUTSIDE_STACK)


def find_licensed_system(machine: Reader) -> str | None:
    """Return the system that bills by the hour, None if the image is not known.

    It is empty for Linux and a licence that is brought.
    """
    if isinstance(machine.inputs, UnreadableValue):
        return None
    if machine.find_text("licenseType") in LICENCES_BROUGHT:
        return ""
    image = machine.inside(IMAGE)
    publisher, offer, sku = (
        (text_if_known(image.find_text(key)) or "").lower() for key in ("publisher", "offer", "sku")
    )
    is_sql_server = publisher == SQL_SERVER_PUBLISHER and "-ws" in offer
    if is_sql_server or publisher in WINDOWS_PUBLISHERS or _says_windows(machine):
        return f"windows sql {sku}" if is_sql_server else "windows"
    if isinstance(image.find_text("publisher"), UnreadableValue):
        return None
    return f"{publisher} {offer} {sku}" if publisher in LINUX_PUBLISHERS else ""


def describe_image(machine: Reader) -> str:
    """Return what is known of the image of a machine: its system, publisher, offer and SKU, or its id."""
    image = machine.inside(IMAGE)
    names = (text_if_known(image.find_text(key)) or "" for key in ("publisher", "offer", "sku", "id"))
    own_id = text_if_known(machine.find_text("sourceImageId")) or ""
    return " ".join(("windows" if _says_windows(machine) else "", *names, own_id))


def _says_windows(machine: Reader) -> bool:
    return (
        machine.resource.type.startswith(WINDOWS_TYPES)
        or machine.has("osProfileWindowsConfig")
        or machine.find_text("storageProfile.osDisk.osType") == "Windows"
        or isinstance(machine.inside("osProfile.windowsConfiguration").inputs, dict)
    )
