"""What Azure refuses about virtual machines and the machines of a scale set."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator

from gpufleet.rehearsal.providers.constraints.registry import (
    Inputs,
    Problem,
    as_list,
    as_number,
    as_object,
    constrains,
    is_known,
)

MACHINE = "azure-native:compute:VirtualMachine"
SCALE_SET = "azure-native:compute:VirtualMachineScaleSet"
_DOCS = "MicrosoftDocs/azure-compute-docs articles/virtual-machines"
_MAX_CUSTOM_DATA = 65_535
# "Support for other VM series isn't currently available": ND-series, NCads H100 v5, Hb-series, Hc-series, M v1.
_NOT_RESERVABLE = re.compile(
    r"Standard_(ND\d|NC\d+adi?s_H100_v5|NCC\d+ads_H100_v5|HB\d|HC\d|HX\d)", re.IGNORECASE
)
# Retired (MicrosoftDocs: nc, ncv2, ncv3, nd, ndv2 and nv "-retirement.md"): K80, P100, V100, P40, M60.
_RETIRED = re.compile(
    r"Standard_(NC\d+r?(_Promo)?|NC\d+r?s_v2|NC\d+r?s_v3|ND\d+r?s|ND40rs_v2|NV\d+(_Promo)?)", re.IGNORECASE
)
# The ND series that exist (sizes/gpu-accelerated/nd-family.md); a size of another ND series does not.
_ND_SIZES = re.compile(
    r"Standard_ND(96asr(_A100)?_v4|96amsr_A100_v4|96isr_H100_v5|96isr_H200_v5|96isr?_MI300X_v5|128is\w*_GB200_v6)"
)
_RESERVATION_GROUP = re.compile(
    r"/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft\.Compute/capacityReservationGroups/[^/]+",
    re.IGNORECASE,
)
_SIZE = re.compile(r"Standard_(?P<family>[A-Z]+)\d+(?:-\d+)?(?P<features>[a-z]*)", re.IGNORECASE)


def get_size(inputs: Inputs) -> str:
    """Return the size of a machine or of a scale set; empty while it is unknown."""
    size = as_object(inputs.get("hardwareProfile")).get("vmSize") or as_object(inputs.get("sku")).get("name")
    return str(size) if is_known(size) else ""


def iterate_profiles(inputs: Inputs) -> Iterator[tuple[str, Inputs]]:
    """Yield the profile of a machine: the inputs themselves, or the scale set's profile with its path."""
    if "virtualMachineProfile" in inputs:
        yield "virtualMachineProfile.", as_object(inputs["virtualMachineProfile"])
    elif "sku" not in inputs:
        yield "", inputs


@constrains(
    MACHINE, SCALE_SET, source=f"{_DOCS}/spot-vms.md; capacity-reservation-overview.md: not with Spot VMs"
)
def _spot_settings_are_for_spot(inputs: Inputs) -> Iterator[Problem]:
    for path, profile in iterate_profiles(inputs):
        is_spot = profile.get("priority") in ("Spot", "Low")
        if "evictionPolicy" in profile and not is_spot:
            yield f"{path}evictionPolicy", "InvalidParameter: an eviction policy is for priority Spot only"
        price = as_number(as_object(profile.get("billingProfile")).get("maxPrice"))
        if price is not None and not is_spot:
            yield f"{path}billingProfile.maxPrice", "InvalidParameter: maxPrice is for priority Spot only"
        if price is not None and price != -1 and price <= 0:
            yield f"{path}billingProfile.maxPrice", f"InvalidParameter: -1 or a price above 0, got {price:g}"
        if is_spot and profile.get("capacityReservation"):
            yield f"{path}capacityReservation", "spot machines can't run in a capacity reservation"
        if is_spot and profile.get("availabilitySet"):
            yield f"{path}availabilitySet", "InvalidParameter: spot machines cannot be in an availability set"
        if is_spot and re.match(r"Standard_B\d", get_size(inputs)):
            yield f"{path}priority", f"SkuNotAvailable: {get_size(inputs)} is not sold as spot"


@constrains(
    MACHINE,
    SCALE_SET,
    source=f"{_DOCS}/linux/mac-create-ssh-keys.md: a Linux machine needs a key or a password",
)
def _login_exists(inputs: Inputs) -> Iterator[Problem]:
    for path, profile in iterate_profiles(inputs):
        os_profile = as_object(profile.get("osProfile"))
        linux = as_object(os_profile.get("linuxConfiguration"))
        if "osProfile" in profile and not linux.get("ssh") and "adminPassword" not in os_profile:
            yield f"{path}osProfile", "InvalidParameter: a Linux machine needs SSH keys or a password"
        data = os_profile.get("customData")
        if isinstance(data, str) and is_known(data):
            yield from _check_custom_data(f"{path}osProfile.customData", data)


def _check_custom_data(path: str, data: str) -> Iterator[Problem]:
    try:
        size = len(base64.b64decode(data, validate=True))
    except binascii.Error:
        yield path, "InvalidParameter: custom data must be base64"
        return
    if size > _MAX_CUSTOM_DATA:
        yield path, f"InvalidParameter: custom data has at most {_MAX_CUSTOM_DATA} bytes, got {size}"


@constrains(MACHINE, source=f"{_DOCS}/availability.md: one zone, or an availability set")
def _machine_has_one_zone(inputs: Inputs) -> Iterator[Problem]:
    zones = as_list(inputs.get("zones"))
    if len(zones) > 1:
        yield "zones", f"InvalidParameter: a virtual machine is in one zone, got {len(zones)}"
    if zones and inputs.get("availabilitySet"):
        yield "availabilitySet", "InvalidParameter: a zone and an availability set exclude each other"


@constrains(
    MACHINE,
    SCALE_SET,
    "azure-native:compute:Disk",
    "azure-native:compute:CapacityReservation",
    source="zones are 1, 2, 3",
)
def _zones_are_numbers(inputs: Inputs) -> Iterator[Problem]:
    for index, zone in enumerate(as_list(inputs.get("zones"))):
        if is_known(zone) and zone not in ("1", "2", "3"):
            yield f"zones[{index}]", f"InvalidParameter: a zone is '1', '2' or '3', got {zone!r}"


@constrains(
    MACHINE,
    SCALE_SET,
    source=f"{_DOCS}/disks-types.md; disks-deploy-premium-v2.md; ultra disks: data disks only",
)
def _disk_kinds_are_possible(inputs: Inputs) -> Iterator[Problem]:
    match = _SIZE.match(get_size(inputs))
    for path, profile in iterate_profiles(inputs):
        storage = as_object(profile.get("storageProfile"))
        os_disk = as_object(storage.get("osDisk"))
        kind = str(as_object(os_disk.get("managedDisk")).get("storageAccountType") or "")
        if kind in ("UltraSSD_LRS", "PremiumV2_LRS"):
            yield (
                f"{path}storageProfile.osDisk.managedDisk.storageAccountType",
                f"InvalidParameter: {kind} cannot be an OS disk",
            )
        if kind.startswith("Premium") and match and "s" not in match["features"].lower():
            yield (
                f"{path}storageProfile.osDisk.managedDisk.storageAccountType",
                f"InvalidParameter: {get_size(inputs)} does not support {kind}",
            )
        yield from _check_data_disks(path, storage, is_zonal=bool(inputs.get("zones")))
        settings = as_object(os_disk.get("diffDiskSettings"))
        if settings:
            yield from _check_ephemeral_disk(path, profile, os_disk)


def _check_data_disks(path: str, storage: Inputs, *, is_zonal: bool) -> Iterator[Problem]:
    numbers = []
    for index, disk in enumerate(map(as_object, as_list(storage.get("dataDisks")))):
        place, kind = (
            f"{path}storageProfile.dataDisks[{index}]",
            as_object(disk.get("managedDisk")).get("storageAccountType"),
        )
        if kind in ("UltraSSD_LRS", "PremiumV2_LRS"):
            if not is_zonal:
                yield (
                    f"{place}.managedDisk.storageAccountType",
                    f"InvalidParameter: {kind} needs an availability zone",
                )
            if disk.get("caching") not in (None, "None"):
                yield f"{place}.caching", f"InvalidParameter: {kind} has no host caching"
        if disk.get("lun") in numbers:
            yield f"{place}.lun", f"InvalidParameter: lun {disk['lun']} is used twice"
        numbers.append(disk.get("lun"))
        size = as_number(disk.get("diskSizeGB"))
        if size is not None and not 1 <= size <= 65_536:  # noqa: PLR2004 - 64 TiB
            yield f"{place}.diskSizeGB", f"InvalidParameter: 1 to 65536, got {size:g}"


def _check_ephemeral_disk(path: str, profile: Inputs, os_disk: Inputs) -> Iterator[Problem]:
    if os_disk.get("caching") != "ReadOnly":
        yield (
            f"{path}storageProfile.osDisk.caching",
            "InvalidParameter: an ephemeral OS disk needs caching ReadOnly",
        )
    if profile.get("priority") == "Spot" and profile.get("evictionPolicy", "Deallocate") != "Delete":
        yield (
            f"{path}evictionPolicy",
            "InvalidParameter: an ephemeral OS disk on Spot needs eviction policy Delete",
        )


@constrains(
    MACHINE,
    SCALE_SET,
    source=f"{_DOCS}/trusted-launch.md: unsupported sizes; hpc-extensions: NDasrA100_v4, NDm_A100_v4",
)
def _trusted_launch_fits_size(inputs: Inputs) -> Iterator[Problem]:
    size = get_size(inputs)
    for path, profile in iterate_profiles(inputs):
        kind = as_object(profile.get("securityProfile")).get("securityType")
        if kind == "TrustedLaunch" and re.search(r"ND96am?srm?(_A100)?_v4", size):
            yield f"{path}securityProfile.securityType", f"BadRequest: {size} does not support TrustedLaunch"


def is_not_reservable(size: object) -> bool:
    return bool(_NOT_RESERVABLE.match(str(size)))


@constrains(MACHINE, SCALE_SET, source=f"{_DOCS}/sizes/gpu-accelerated; the series' -retirement.md pages")
def _size_exists(inputs: Inputs) -> Iterator[Problem]:
    size = get_size(inputs)
    path = "hardwareProfile.vmSize" if "hardwareProfile" in inputs else "sku.name"
    if _RETIRED.fullmatch(size):
        yield path, f"SkuNotAvailable: {size} is retired"
    elif size.startswith("Standard_ND") and not _ND_SIZES.match(size):
        yield path, f"InvalidParameter: the value {size} provided for the VM size is not valid"


@constrains(MACHINE, SCALE_SET, source="Azure Resource Manager: LinkedInvalidPropertyId")
def _reservation_group_is_an_id(inputs: Inputs) -> Iterator[Problem]:
    for path, profile in iterate_profiles(inputs):
        group = as_object(as_object(profile.get("capacityReservation")).get("capacityReservationGroup")).get(
            "id"
        )
        if is_known(group) and not _RESERVATION_GROUP.fullmatch(str(group)):
            place = f"{path}capacityReservation.capacityReservationGroup.id"
            yield place, f"LinkedInvalidPropertyId: {group!r} is not the id of a capacity reservation group"


@constrains(
    MACHINE, source=f"{_DOCS}/capacity-reservation-overview.md 2026-02-17: limitations and restrictions"
)
def _reserved_machine_is_possible(inputs: Inputs) -> Iterator[Problem]:
    if not inputs.get("capacityReservation"):
        return
    if is_not_reservable(get_size(inputs)):
        yield "capacityReservation", f"SkuNotAvailable: no capacity reservations of {get_size(inputs)}"
    for key in ("availabilitySet", "proximityPlacementGroup", "host", "hostGroup"):
        if inputs.get(key):
            yield key, f"BadRequest: {key} cannot be combined with a capacity reservation"
    if as_object(inputs.get("additionalCapabilities")).get("ultraSSDEnabled"):
        yield (
            "additionalCapabilities.ultraSSDEnabled",
            "BadRequest: ultra disks cannot be combined with a capacity reservation",
        )


@constrains(
    MACHINE, SCALE_SET, source="azure-resource-manager: tag-resources.md: 50 tags, 512 and 256 characters"
)
def _tags_are_valid(inputs: Inputs) -> Iterator[Problem]:
    tags = as_object(inputs.get("tags"))
    if len(tags) > 50:  # noqa: PLR2004 - of the document
        yield "tags", f"TagCountExceeded: at most 50, got {len(tags)}"
    for key, value in tags.items():
        if re.search(r"[<>%&\\?/]", key) or (isinstance(value, str) and len(value) > 256):  # noqa: PLR2004
            yield (
                f"tags.{key}",
                "InvalidTagName: no <, >, %, &, \\, ?, / in keys; values of at most 256 characters",
            )
