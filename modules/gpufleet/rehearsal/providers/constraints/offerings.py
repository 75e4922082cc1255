"""What the clouds refuse because a region or zone does not have it, and how many disks a machine takes.

These constraints read the catalogue's tables of offerings, zones and disks, as the rules of ``fleet`` do: they are too
large to state twice. What they refuse is what a vendor's API refuses; the tables' sources are their source.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet import catalog
from gpufleet.catalog.attachable_card import CARD_TYPES
from gpufleet.rehearsal.providers.constraints.aws_launch import INSTANCE as AWS_INSTANCE
from gpufleet.rehearsal.providers.constraints.aws_launch import RESERVATION as AWS_RESERVATION
from gpufleet.rehearsal.providers.constraints.azure_machine import (
    MACHINE,
    SCALE_SET,
    get_size,
    iterate_profiles,
)
from gpufleet.rehearsal.providers.constraints.gcp_instance import INSTANCE as GCP_INSTANCE
from gpufleet.rehearsal.providers.constraints.registry import (
    Inputs,
    Problem,
    as_list,
    as_number,
    as_object,
    constrains,
    is_known,
)

GCP_TEMPLATE = "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate"
GCP_CARDS = {card_type: model for model, card_type in CARD_TYPES.items()}
_SOURCE = (
    "catalog/data/offered.csv, zones.csv, machine_facts.csv: the vendors' lists, each with source and date"
)


@constrains(AWS_INSTANCE, AWS_RESERVATION, source=_SOURCE)
def _aws_zone_has_the_type(inputs: Inputs) -> Iterator[Problem]:
    zone, name = inputs.get("availabilityZone"), inputs.get("instanceType")
    if not is_known(zone) or not is_known(name):
        return
    region = str(zone)[:-1]
    facts = catalog.get_machine_facts(str(name), "aws")
    sold = facts.zones.get(region, ()) if facts else ()
    known = catalog.list_zones("aws", region)
    if known is not None and zone not in known:
        yield "availabilityZone", f"InvalidParameterValue: Invalid availability zone: [{zone}]"
    elif sold and zone not in sold:
        text = f"Unsupported: {name} is not supported in {zone}; choose {', '.join(sold)}"
        yield "availabilityZone", text


@constrains(GCP_INSTANCE, GCP_TEMPLATE, source=_SOURCE)
def _gcp_place_has_the_machine(inputs: Inputs) -> Iterator[Problem]:
    place = next((key for key in ("zone", "region") if is_known(inputs.get(key))), None)
    if place is None or not is_known(inputs.get("machineType")):
        return
    name = str(inputs[place]).rpartition("/")[2]
    region = name.rpartition("-")[0] if place == "zone" else name
    machine = str(inputs["machineType"]).rpartition("/")[2]
    known = catalog.list_zones("gcp", region)
    if place == "zone" and known is not None and name not in known:
        yield place, f"invalid: zone {name} does not exist"
        return
    cards = [
        str(as_object(card).get("type")).rpartition("/")[2]
        for card in as_list(inputs.get("guestAccelerators"))
    ]
    models: list[str | None] = [GCP_CARDS[card] for card in cards if card in GCP_CARDS]
    for card in models or [None]:
        facts = catalog.get_machine_facts(machine, "gcp", card)
        zones = facts.zones.get(region, ()) if facts else ()
        is_elsewhere = place == "zone" and zones and name not in zones
        if is_elsewhere or catalog.is_sold_in("gcp", machine, region, card) is False:
            yield place, f"notFound: {card or machine} does not exist in {place} {name}"


@constrains(MACHINE, SCALE_SET, source=_SOURCE)
def _azure_location_has_the_size(inputs: Inputs) -> Iterator[Problem]:
    if not is_known(inputs.get("location")):
        return
    location, size = str(inputs["location"]).lower().replace(" ", ""), get_size(inputs)
    if size and catalog.is_sold_in("azure", size, location) is False:
        yield "location", f"SkuNotAvailable: {size} is not available in location {location}"
    if as_list(inputs.get("zones")) and catalog.list_zones("azure", location) == ():
        yield (
            "zones",
            f"ResourceTypeNotSupportAvailabilityZones: no availability zones at location {location}",
        )


@constrains(MACHINE, SCALE_SET, source=_SOURCE)
def _azure_disks_fit_the_size(inputs: Inputs) -> Iterator[Problem]:
    facts, limit = (
        catalog.get_machine_facts(get_size(inputs), "azure"),
        catalog.find_limit("azure", "boot_disk_gib"),
    )
    for prefix, profile in iterate_profiles(inputs):
        storage = as_object(profile.get("storageProfile"))
        count, path = len(as_list(storage.get("dataDisks"))), f"{prefix}storageProfile.dataDisks"
        if facts and facts.max_data_disks is not None and count > facts.max_data_disks:
            text = f"the maximum number of data disks of a VM of this size is {facts.max_data_disks}, got {count}"
            yield path, f"OperationNotAllowed: {text}"
        size = as_number(as_object(storage.get("osDisk")).get("diskSizeGB"))
        if limit and size is not None and not limit.allows(size):
            yield (
                f"{prefix}storageProfile.osDisk.diskSizeGB",
                f"InvalidParameter: {limit.text} GiB, got {size:g}",
            )


@constrains(AWS_INSTANCE, source=_SOURCE)
def _aws_volumes_fit_the_type(inputs: Inputs) -> Iterator[Problem]:
    facts = catalog.get_machine_facts(str(inputs.get("instanceType")), "aws")
    count = len(as_list(inputs.get("ebsBlockDevices")))
    if facts and facts.max_data_disks is not None and count > facts.max_data_disks:
        yield "ebsBlockDevices", f"AttachmentLimitExceeded: at most {facts.max_data_disks}, got {count}"
