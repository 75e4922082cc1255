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
    MACHINE, SCALE_SET, source="VirtualMachineScaleSetOSProfile: customData, base64 of at most 65535 bytes"
)
def _custom_data_is_small(inputs: Inputs) -> Iterator[Problem]:
    for prefix, profile in iterate_profiles(inputs):
        path, data = f"{prefix}osProfile.customData", as_object(profile.get("osProfile")).get("customData")
        if not isinstance(data, str) or not is_known(data):
            continue
        try:
            size = len(base64.b64decode(data, validate=True))
        except binascii.Error:
            yield path, "InvalidParameter: custom data must be base64"
            continue
        if size > _MAX_CUSTOM_DATA:
            yield path, f"InvalidParameter: custom data has at most {_MAX_CUSTOM_DATA} bytes, got {size}"


@constrains(
    MACHINE,
    SCALE_SET,
    source=f"{_DOCS}/disks-types.md; disks-deploy-premium-v2.md; ultra disks: data disks only",
)
def _disks_fit_machine(inputs: Inputs) -> Iterator[Problem]:
    match = _SIZE.match(get_size(inputs))
    for path, profile in iterate_profiles(inputs):
        storage = as_object(profile.get("storageProfile"))
        disk = as_object(as_object(storage.get("osDisk")).get("managedDisk"))
        kind = str(disk.get("storageAccountType") or "")
        if kind.startswith("Premium") and match and "s" not in match["features"].lower():
            yield (
                f"{path}storageProfile.osDisk.managedDisk.storageAccountType",
                f"InvalidParameter: {get_size(inputs)} does not support {kind}",
            )
        numbers = [as_object(disk).get("lun") for disk in as_list(storage.get("dataDisks"))]
        for index, number in enumerate(numbers):
            if number in numbers[:index]:
                place = f"{path}storageProfile.dataDisks[{index}].lun"
                yield place, f"InvalidParameter: lun {number} is used twice"


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


@constrains(
    MACHINE, source=f"{_DOCS}/capacity-reservation-overview.md 2026-02-17: limitations and restrictions"
)
def _reserved_size_is_possible(inputs: Inputs) -> Iterator[Problem]:
    if inputs.get("capacityReservation") and is_not_reservable(get_size(inputs)):
        yield "capacityReservation", f"SkuNotAvailable: no capacity reservations of {get_size(inputs)}"


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
