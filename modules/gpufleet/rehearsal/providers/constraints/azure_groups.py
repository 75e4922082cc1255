"""What Azure refuses about scale sets, reservations, autoscale settings, networks and addresses."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpufleet.rehearsal.providers.constraints.azure_machine import SCALE_SET, get_size, is_not_reservable
from gpufleet.rehearsal.providers.constraints.registry import (
    Inputs,
    Problem,
    as_list,
    as_number,
    as_object,
    constrains,
    is_known,
)

RESERVATION = "azure-native:compute:CapacityReservation"
_COMPUTE = "MicrosoftDocs/azure-compute-docs articles"
_OVERVIEW = f"{_COMPUTE}/virtual-machines/capacity-reservation-overview.md 2026-02-17"
# "Support for other VM series isn't currently available": ND-series, NCads H100 v5, Hb-series, Hc-series, M v1.
_NOT_RESERVABLE = re.compile(
    r"Standard_(ND\d|NC\d+ads_H100_v5|NCC\d+ads_H100_v5|HB\d|HC\d|HX\d)", re.IGNORECASE
)
_ONLY_ZONES = re.compile(r"Standard_(NC|NV|NG)\d", re.IGNORECASE)  # multi-zone only: no fault domains
_MAX_SINGLE_PLACEMENT_GROUP = 100
_MAX_INSTANCES = 1_000


@constrains(RESERVATION, source=f"{_OVERVIEW}: supported series; one zone a reservation")
def _size_is_reservable(inputs: Inputs) -> Iterator[Problem]:
    sku = as_object(inputs.get("sku"))
    name, capacity = sku.get("name"), as_number(sku.get("capacity"))
    if is_known(name) and is_not_reservable(name):
        yield "sku.name", f"SkuNotAvailable: on-demand capacity reservations do not support {name}"
    if capacity is not None and capacity < 0:
        yield "sku.capacity", f"InvalidParameter: 0 or more, got {capacity:g}"
    for key in ("name", "capacity"):
        if key not in sku:
            yield f"sku.{key}", f"InvalidParameter: sku.{key} must be set"
    if len(as_list(inputs.get("zones"))) > 1:
        yield "zones", "InvalidParameter: a capacity reservation is in one zone"


def _profile(inputs: Inputs) -> Inputs:
    return as_object(inputs.get("virtualMachineProfile"))


def _is_flexible(inputs: Inputs) -> bool:
    return inputs.get("orchestrationMode") == "Flexible"


@constrains(SCALE_SET, source=f"{_OVERVIEW}; capacity-reservation-associate-virtual-machine-scale-set.md")
def _reserved_scale_set_is_possible(inputs: Inputs) -> Iterator[Problem]:
    profile = _profile(inputs)
    if not profile.get("capacityReservation"):
        return
    if not _is_flexible(inputs) and inputs.get("singlePlacementGroup", True) is not False:
        yield (
            "singlePlacementGroup",
            "BadRequest: a scale set with a capacity reservation needs singlePlacementGroup false",
        )
    if inputs.get("proximityPlacementGroup"):
        yield "proximityPlacementGroup", "BadRequest: cannot be combined with a capacity reservation"
    if as_object(inputs.get("additionalCapabilities")).get("ultraSSDEnabled"):
        yield (
            "additionalCapabilities.ultraSSDEnabled",
            "BadRequest: cannot be combined with a capacity reservation",
        )
    domains = as_number(inputs.get("platformFaultDomainCount"))
    limit = 1 if _ONLY_ZONES.match(get_size(inputs)) else 3
    if domains is not None and domains > limit:
        yield (
            "platformFaultDomainCount",
            f"BadRequest: at most {limit} with a capacity reservation, got {domains:g}",
        )
    if is_not_reservable(get_size(inputs)):
        yield (
            "sku.name",
            f"SkuNotAvailable: on-demand capacity reservations do not support {get_size(inputs)}",
        )


@constrains(
    SCALE_SET, source=f"{_COMPUTE}/virtual-machine-scale-sets/virtual-machine-scale-sets-placement-groups.md"
)
def _placement_group_limits_size(inputs: Inputs) -> Iterator[Problem]:
    capacity = as_number(as_object(inputs.get("sku")).get("capacity"))
    is_single = inputs.get("singlePlacementGroup", not _is_flexible(inputs))
    if capacity is None:
        return
    if is_single and capacity > _MAX_SINGLE_PLACEMENT_GROUP:
        yield (
            "sku.capacity",
            f"InvalidParameter: a single placement group has at most {_MAX_SINGLE_PLACEMENT_GROUP}, got {capacity:g}",
        )
    if not 0 <= capacity <= _MAX_INSTANCES:
        yield "sku.capacity", f"InvalidParameter: 0 to {_MAX_INSTANCES}, got {capacity:g}"


@constrains(
    SCALE_SET,
    source=f"{_COMPUTE}/virtual-machine-scale-sets/virtual-machine-scale-sets-orchestration-modes.md",
)
def _orchestration_mode_allows(inputs: Inputs) -> Iterator[Problem]:
    profile = _profile(inputs)
    if _is_flexible(inputs):
        for key in ("overprovision", "doNotRunExtensionsOnOverprovisionedVMs"):
            if key in inputs:
                yield key, f"InvalidParameter: {key} is for Uniform scale sets only"
        if inputs.get("singlePlacementGroup"):
            yield "singlePlacementGroup", "InvalidParameter: false for Flexible scale sets"
        if "platformFaultDomainCount" not in inputs:
            yield (
                "platformFaultDomainCount",
                "InvalidParameter: a Flexible scale set needs platformFaultDomainCount",
            )
        return
    storage = as_object(profile.get("storageProfile"))
    if "deleteOption" in as_object(storage.get("osDisk")):
        yield (
            "virtualMachineProfile.storageProfile.osDisk.deleteOption",
            "InvalidParameter: deleteOption is for Flexible scale sets only",
        )
    for index, disk in enumerate(map(as_object, as_list(storage.get("dataDisks")))):
        if "deleteOption" in disk:
            yield (
                f"virtualMachineProfile.storageProfile.dataDisks[{index}].deleteOption",
                "InvalidParameter: deleteOption is for Flexible scale sets only",
            )
    if "priorityMixPolicy" in inputs:
        yield "priorityMixPolicy", "InvalidParameter: a priority mix is for Flexible scale sets only"


@constrains(
    SCALE_SET,
    source=f"{_COMPUTE}/virtual-machine-scale-sets/spot-priority-mix.md; use-spot.md: try and restore",
)
def _spot_policies_need_spot(inputs: Inputs) -> Iterator[Problem]:
    is_spot = _profile(inputs).get("priority") == "Spot"
    for key in ("spotRestorePolicy", "priorityMixPolicy"):
        if key in inputs and not is_spot:
            yield key, f"InvalidParameter: {key} needs priority Spot"
    share = as_number(as_object(inputs.get("priorityMixPolicy")).get("regularPriorityPercentageAboveBase"))
    if share is not None and not 0 <= share <= 100:  # noqa: PLR2004 - percent
        yield (
            "priorityMixPolicy.regularPriorityPercentageAboveBase",
            f"InvalidParameter: 0 to 100, got {share:g}",
        )


@constrains(
    SCALE_SET,
    source=f"{_COMPUTE}/virtual-machine-scale-sets/virtual-machine-scale-sets-use-availability-zones.md",
)
def _fault_domains_fit_zones(inputs: Inputs) -> Iterator[Problem]:
    zones, domains = as_list(inputs.get("zones")), as_number(inputs.get("platformFaultDomainCount"))
    if len(zones) > 1 and domains is not None and domains not in (1, 5):
        yield "platformFaultDomainCount", f"InvalidParameter: 1 or 5 over several zones, got {domains:g}"
    if inputs.get("zoneBalance") and not zones:
        yield "zoneBalance", "InvalidParameter: needs zones"


@constrains(SCALE_SET, source="VirtualMachineScaleSetOSProfile: computerNamePrefix of 1 to 15 characters")
def _computer_name_prefix_is_short(inputs: Inputs) -> Iterator[Problem]:
    prefix = as_object(_profile(inputs).get("osProfile")).get("computerNamePrefix")
    if is_known(prefix) and not 1 <= len(str(prefix)) <= 58:  # noqa: PLR2004 - 64 less the number's six
        yield (
            "virtualMachineProfile.osProfile.computerNamePrefix",
            f"InvalidParameter: 1 to 58 characters, got {len(str(prefix))}",
        )


@constrains(
    "azure-native:monitor:AutoscaleSetting",
    source="azure-monitor autoscale: minimum, default and maximum of a profile",
)
def _autoscale_bounds_are_in_order(inputs: Inputs) -> Iterator[Problem]:
    for index, profile in enumerate(map(as_object, as_list(inputs.get("profiles")))):
        capacity = as_object(profile.get("capacity"))
        bounds = [as_number(capacity.get(key)) for key in ("minimum", "default", "maximum")]
        known = [bound for bound in bounds if bound is not None]
        if known != sorted(known) or any(not 0 <= bound <= _MAX_INSTANCES for bound in known):
            yield (
                f"profiles[{index}].capacity",
                f"InvalidParameter: 0 <= minimum <= default <= maximum <= {_MAX_INSTANCES}",
            )


@constrains(
    "azure-native:network:PublicIPAddress",
    source="virtual-network/ip-services/public-ip-addresses.md: Standard is static",
)
def _standard_address_is_static(inputs: Inputs) -> Iterator[Problem]:
    sku = as_object(inputs.get("sku")).get("name", "Basic")
    if sku == "Standard" and inputs.get("publicIPAllocationMethod") != "Static":
        yield "publicIPAllocationMethod", "BadRequest: a Standard public address is Static"
    if sku == "Basic":
        yield "sku", "BadRequest: Basic public addresses were retired on 2025-09-30; use Standard"


@constrains("azure-native:network:BastionHost", source="bastion/configuration-settings.md: SKUs and features")
def _bastion_features_need_standard(inputs: Inputs) -> Iterator[Problem]:
    sku = as_object(inputs.get("sku")).get("name", "Basic")
    for key in ("enableTunneling", "enableIpConnect", "enableShareableLink", "enableFileCopy"):
        if inputs.get(key) and sku not in ("Standard", "Premium"):
            yield key, f"BadRequest: {key} needs SKU Standard or Premium, got {sku}"
    for index, item in enumerate(map(as_object, as_list(inputs.get("ipConfigurations")))):
        subnet = as_object(item.get("subnet")).get("id")
        if is_known(subnet) and not str(subnet).endswith("/subnets/AzureBastionSubnet"):
            yield (
                f"ipConfigurations[{index}].subnet",
                "BadRequest: the subnet must be called AzureBastionSubnet",
            )


@constrains(
    "azure-native:network:Subnet",
    source="bastion/configuration-settings.md: AzureBastionSubnet of /26 or larger",
)
def _bastion_subnet_is_large(inputs: Inputs) -> Iterator[Problem]:
    prefix = str(inputs.get("addressPrefix") or "").rpartition("/")[2]
    if inputs.get("subnetName") == "AzureBastionSubnet" and prefix.isdecimal() and int(prefix) > 26:  # noqa: PLR2004
        yield "addressPrefix", f"BadRequest: AzureBastionSubnet needs /26 or larger, got /{prefix}"


@constrains(
    "azure-native:network:NatGateway", source="nat-gateway/nat-overview.md: one zone, Standard addresses"
)
def _nat_gateway_is_in_one_zone(inputs: Inputs) -> Iterator[Problem]:
    sku = as_object(inputs.get("sku")).get("name")
    if sku == "Standard" and len(as_list(inputs.get("zones"))) > 1:
        yield "zones", "BadRequest: a Standard NAT gateway is in one zone"
    if not sku:
        yield "sku", "BadRequest: a NAT gateway needs SKU Standard"


@constrains(
    "azure-native:network:NetworkSecurityGroup",
    source="virtual-network/network-security-groups-overview.md: priority",
)
def _rule_priorities_are_unique(inputs: Inputs) -> Iterator[Problem]:
    seen: set[tuple[object, object]] = set()
    for index, rule in enumerate(map(as_object, as_list(inputs.get("securityRules")))):
        priority, path = as_number(rule.get("priority")), f"securityRules[{index}].priority"
        if priority is not None and not 100 <= priority <= 4_096:  # noqa: PLR2004 - of the document
            yield path, f"SecurityRuleInvalidPriority: 100 to 4096, got {priority:g}"
        if priority is not None and (rule.get("direction"), priority) in seen:
            yield path, f"SecurityRuleConflict: priority {priority:g} is used twice in this direction"
        seen.add((rule.get("direction"), priority))


@constrains("azure-native:azurefleet:Fleet", source="azure-compute-docs azure-compute-fleet: profiles")
def _fleet_profiles_are_valid(inputs: Inputs) -> Iterator[Problem]:
    sizes = as_list(inputs.get("vmSizesProfile"))
    if len(sizes) > 15:  # noqa: PLR2004 - of the document
        yield "vmSizesProfile", f"InvalidParameter: at most 15 sizes, got {len(sizes)}"
    if not inputs.get("spotPriorityProfile") and not inputs.get("regularPriorityProfile"):
        yield "", "InvalidParameter: spotPriorityProfile or regularPriorityProfile must be set"
