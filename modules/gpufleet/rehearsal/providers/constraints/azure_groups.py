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
_ONLY_ZONES = re.compile(r"Standard_(NC|NV|NG)\d", re.IGNORECASE)  # multi-zone only: no fault domains
_MAX_INSTANCES = 1_000


@constrains(RESERVATION, source=f"{_OVERVIEW}: supported series; one zone a reservation")
def _size_is_reservable(inputs: Inputs) -> Iterator[Problem]:
    name = as_object(inputs.get("sku")).get("name")
    if is_known(name) and is_not_reservable(name):
        yield "sku.name", f"SkuNotAvailable: on-demand capacity reservations do not support {name}"


@constrains(SCALE_SET, source=f"{_OVERVIEW}; capacity-reservation-associate-virtual-machine-scale-set.md")
def _reserved_scale_set_is_possible(inputs: Inputs) -> Iterator[Problem]:
    if not as_object(inputs.get("virtualMachineProfile")).get("capacityReservation"):
        return
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


@constrains("azure-native:network:BastionHost", source="bastion/configuration-settings.md: SKUs and features")
def _bastion_features_need_standard(inputs: Inputs) -> Iterator[Problem]:
    sku = as_object(inputs.get("sku")).get("name", "Basic")
    for key in ("enableTunneling", "enableIpConnect", "enableShareableLink", "enableFileCopy"):
        if inputs.get(key) and sku not in ("Standard", "Premium"):
            yield key, f"BadRequest: {key} needs SKU Standard or Premium, got {sku}"


@constrains(
    "azure-native:network:Subnet",
    source="bastion/configuration-settings.md: AzureBastionSubnet of /26 or larger",
)
def _bastion_subnet_is_large(inputs: Inputs) -> Iterator[Problem]:
    prefix = str(inputs.get("addressPrefix") or "").rpartition("/")[2]
    if inputs.get("subnetName") == "AzureBastionSubnet" and prefix.isdecimal() and int(prefix) > 26:  # noqa: PLR2004
        yield "addressPrefix", f"BadRequest: AzureBastionSubnet needs /26 or larger, got /{prefix}"


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
