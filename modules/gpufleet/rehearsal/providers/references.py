"""What a cloud refuses because of another resource: reservations, zones, groups, quotas of addresses.

These checks need the ids of other resources, so they run when a resource is created or changed, as in the real clouds.
The source is in each function's text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from gpufleet.rehearsal.providers.diff import diff_resource_inputs
from gpufleet.rehearsal.providers.faults import CloudError
from gpufleet.rehearsal.providers.groups import (
    AWS_GROUP,
    AWS_INSTANCE,
    AZURE_MACHINE,
    GCP_INSTANCE,
    GCP_REGION_GROUP,
    SCALE_SET,
    find_aws_template,
    get_gcp_template,
)
from gpufleet.rehearsal.providers.property_values import PlainValues, unwrap_secrets
from gpufleet.rehearsal.providers.schema import SimulatedResourceType
from gpufleet.rehearsal.providers.side_effects import CAPACITY_BLOCK, resolve_launch_inputs
from gpufleet.rehearsal.providers.store import ResourceRow, ResourceStore

_AWS_RESERVATION = "aws:ec2/capacityReservation:CapacityReservation"
_AZURE_RESERVATION = "azure-native:compute:CapacityReservation"
_AZURE_GROUP = "azure-native:compute:CapacityReservationGroup"
_AUTOSCALERS = ("gcp:compute/regionAutoscaler:RegionAutoscaler", "gcp:compute/autoscaler:Autoscaler")
_RESIZE_REQUESTS = (
    "gcp:compute/regionResizeRequest:RegionResizeRequest",
    "gcp:compute/resizeRequest:ResizeRequest",
)
_API = "https://www.googleapis.com/compute/v1/"
_ELASTIC_IP_QUOTA = (
    5  # L-0263D0A3, per region; docs.aws.amazon.com/AWSEC2/latest/UserGuide/elastic-ip-addresses-eip.html
)
_MAX_SINGLE_PLACEMENT_GROUP = 100  # virtual-machine-scale-sets-placement-groups.md
_SPREAD_LIMIT = 7  # instances per zone of a spread placement group
Check = Callable[[ResourceStore, ResourceRow, PlainValues], Iterator[str]]


def check_references(store: ResourceStore, row: ResourceRow) -> None:
    """Raise CloudError if the cloud refuses this resource next to the ones that exist."""
    check = _CHECKS.get(row.type)
    if check is None:
        return
    for problem in check(store, row, resolve_launch_inputs(store, row.type, row.inputs)):
        raise CloudError(problem)


def check_immutable_properties(kind: SimulatedResourceType, before: ResourceRow, after: ResourceRow) -> None:
    """Raise CloudError for a property that the API cannot change, and that the provider does not replace for."""
    old, new = unwrap_secrets(before.inputs), unwrap_secrets(after.inputs)
    for change in diff_resource_inputs(old, new, kind.immutable):
        if change.replaces:
            text = f"Changing property '{change.path}' is not allowed."
            raise CloudError(
                f"PropertyChangeNotAllowed: {text} Set replace_on_changes to replace {after.id}."
            )


def check_deletion(store: ResourceStore, kind: str, identity: str) -> None:
    """Raise CloudError if the cloud refuses to delete a resource that others use."""
    if kind != _AZURE_RESERVATION:
        return
    row = store.get_resource(kind, identity)
    group = identity.rpartition("/capacityReservations/")[0]
    users = [user for user in _find_azure_users(store, group) if row and _uses_reservation(user, row)]
    if users:
        text = "a capacity reservation cannot be deleted while virtual machines are associated with it"
        raise CloudError(f"OperationNotAllowed: {text}: {users[0].id}")


def _rows(store: ResourceStore, *kinds: str) -> Iterator[tuple[ResourceRow, PlainValues]]:
    for row in store.find_resources_by_type(*kinds):
        yield row, unwrap_secrets(row.inputs)


def _elastic_ip(store: ResourceStore, row: ResourceRow, inputs: PlainValues) -> Iterator[str]:
    others = [
        other for other, fields in _rows(store, row.type) if fields.get("region") == inputs.get("region")
    ]
    if len([other for other in others if other.id != row.id]) >= _ELASTIC_IP_QUOTA:
        yield f"AddressLimitExceeded: The maximum number of addresses has been reached: {_ELASTIC_IP_QUOTA}."


def _get_target(inputs: PlainValues) -> str:
    specification = inputs.get("capacityReservationSpecification") or {}
    return str((specification.get("capacityReservationTarget") or {}).get("capacityReservationId") or "")


def _get_placement_group(inputs: PlainValues) -> str:
    return str(inputs.get("placementGroup") or (inputs.get("placement") or {}).get("groupName") or "")


def _aws_instance(store: ResourceStore, row: ResourceRow, inputs: PlainValues) -> Iterator[str]:
    """Check a targeted reservation: type, zone, placement group, room (UserGuide/capacity-reservations-using.html)."""
    zone, target = str(row.outputs.get("availabilityZone") or ""), _get_target(inputs)
    market = str((inputs.get("instanceMarketOptions") or {}).get("marketType") or "")
    if target and store.get_resource(CAPACITY_BLOCK, target) and market != "capacity-block":
        yield f"InvalidParameterValue: {target} is a Capacity Block; the market type must be capacity-block"
    reservation = store.get_resource(_AWS_RESERVATION, target) if target else None
    group = _get_placement_group(inputs)
    if reservation:
        yield from _check_aws_reservation(store, row, inputs, reservation, group)
    if group:
        yield from _check_placement_group(store, row, group, zone)


def _check_aws_reservation(
    store: ResourceStore,
    row: ResourceRow,
    inputs: PlainValues,
    reservation: ResourceRow,
    group: str,
) -> Iterator[str]:
    held, zone = unwrap_secrets(reservation.inputs), str(row.outputs.get("availabilityZone") or "")
    if inputs.get("instanceType") and held["instanceType"] != inputs["instanceType"]:
        yield f"InvalidParameterValue: {reservation.id} is for {held['instanceType']}, not for {inputs['instanceType']}"
    if zone and held["availabilityZone"] != zone:
        yield f"InvalidParameterValue: {reservation.id} is in {held['availabilityZone']}, the instance in {zone}"
    wanted = str(held.get("placementGroupArn") or "").rpartition("/")[2]
    if wanted != group and (wanted or group):
        names = f"{wanted or 'none'}, the instance {group or 'none'}"
        yield f"InvalidParameterValue: {reservation.id} has placement group {names}"
    used = [
        other
        for other, _ in _rows(store, AWS_INSTANCE)
        if other.id != row.id
        and _get_target(resolve_launch_inputs(store, other.type, other.inputs)) == reservation.id
    ]
    if len(used) >= int(held["instanceCount"]):
        yield f"ReservationCapacityExceeded: {reservation.id} has {held['instanceCount']} instances, all in use"


def _check_placement_group(store: ResourceStore, row: ResourceRow, name: str, zone: str) -> Iterator[str]:
    """Check that a cluster group is in one zone, and a spread one has 7 machines a zone (placement-strategies.html)."""
    found = [
        fields
        for _, fields in _rows(store, "aws:ec2/placementGroup:PlacementGroup")
        if fields.get("name") == name
    ]
    others = [
        str(other.outputs.get("availabilityZone") or "")
        for other in store.find_resources_by_type(AWS_INSTANCE)
        if other.id != row.id
        and _get_placement_group(resolve_launch_inputs(store, other.type, other.inputs)) == name
    ]
    strategy = found[0].get("strategy") if found else "cluster"
    if strategy == "cluster" and any(other and zone and other != zone for other in others):
        yield f"InvalidParameterValue: cluster placement group {name} is in {others[0]}; it cannot span zones"
    if strategy == "spread" and others.count(zone) >= _SPREAD_LIMIT:
        yield f"InstanceLimitExceeded: spread placement group {name} has {_SPREAD_LIMIT} instances in {zone}"


def _volume_attachment(store: ResourceStore, row: ResourceRow, inputs: PlainValues) -> Iterator[str]:
    """Check that a volume and its instance are in one zone (ebs-attaching-volume.html)."""
    del row
    volume = store.get_resource("aws:ebs/volume:Volume", str(inputs.get("volumeId")))
    machine = store.get_resource(AWS_INSTANCE, str(inputs.get("instanceId")))
    zones = [str(found.outputs.get("availabilityZone") or "") for found in (volume, machine) if found]
    if len(zones) == len(["volume", "machine"]) and zones[0] != zones[1]:
        yield f"InvalidVolume.ZoneMismatch: the volume is in {zones[0]}, the instance in {zones[1]}"


def _aws_group(store: ResourceStore, row: ResourceRow, inputs: PlainValues) -> Iterator[str]:
    """Limits of mixed instances groups and of placement groups (ec2-auto-scaling-mixed-instances-groups.html)."""
    del row
    policy = inputs.get("mixedInstancesPolicy") or {}
    reference = (policy.get("launchTemplate") or {}).get("launchTemplateSpecification")
    template = find_aws_template(store, reference or inputs.get("launchTemplate") or {})
    market = (template.get("instanceMarketOptions") or {}).get("marketType")
    if policy and market:
        yield f"ValidationError: Incompatible launch template: market type {market} with a mixed instances policy"
    subnets = [
        store.get_resource("aws:ec2/subnet:Subnet", str(item))
        for item in inputs.get("vpcZoneIdentifiers") or []
    ]
    zones = {str(subnet.outputs.get("availabilityZone")) for subnet in subnets if subnet}
    groups = [fields for _, fields in _rows(store, "aws:ec2/placementGroup:PlacementGroup")]
    name = inputs.get("placementGroup") or (template.get("placement") or {}).get("groupName")
    strategy = next((fields.get("strategy") for fields in groups if fields.get("name") == name), None)
    if strategy == "cluster" and len(zones) > 1:
        yield f"InvalidParameterValue: cluster placement group {name} cannot span the zones {', '.join(sorted(zones))}"
    reservation = store.get_resource(_AWS_RESERVATION, _get_target(template))
    if reservation and zones and zones != {reservation.inputs["availabilityZone"]}:
        held = reservation.inputs["availabilityZone"]
        yield f"InvalidParameterValue: {reservation.id} is in {held}, the group in {', '.join(sorted(zones))}"
    if template.get("networkInterfaces") and any(
        (item or {}).get("subnetId") for item in template["networkInterfaces"]
    ):
        named = {str(item.get("subnetId")) for item in template["networkInterfaces"] if item.get("subnetId")}
        if named - {str(item) for item in inputs.get("vpcZoneIdentifiers") or []}:
            yield "ValidationError: the launch template's subnet is not one of the group's subnets"


def _gcp_reservation(store: ResourceStore, affinity: PlainValues) -> tuple[ResourceRow, PlainValues] | None:
    values = (affinity.get("specificReservation") or {}).get("values") or [""]
    name = str(values[0]).rpartition("/")[2]
    return next(
        (
            (row, fields)
            for row, fields in _rows(store, "gcp:compute/reservation:Reservation")
            if fields.get("name") == name
        ),
        None,
    )


def _gcp_instance(store: ResourceStore, row: ResourceRow, inputs: PlainValues) -> Iterator[str]:
    """Check that a reservation serves the zone and machine type, and has room (instances/reservations-consume)."""
    found = _gcp_reservation(store, inputs.get("reservationAffinity") or {})
    if found is None:
        return
    reservation, fields = found
    specific = fields.get("specificReservation") or {}
    machine = str((specific.get("instanceProperties") or {}).get("machineType") or "")
    if fields.get("zone") != inputs.get("zone"):
        places = f"{fields.get('zone')}, the instance in {inputs.get('zone')}"
        yield f"INVALID_ARGUMENT: reservation {fields['name']} is in {places}"
    if machine and machine != str(inputs.get("machineType")).rpartition("/")[2]:
        yield f"INVALID_ARGUMENT: reservation {fields['name']} is for {machine}, not for {inputs.get('machineType')}"
    used = [
        other
        for other, values in _rows(store, GCP_INSTANCE)
        if other.id != row.id
        and (_gcp_reservation(store, values.get("reservationAffinity") or {}) or (None,))[0] == reservation
    ]
    if len(used) >= int(specific.get("count") or 0):
        text = f"reservation {fields['name']} has {specific.get('count')} machines, all in use"
        yield f"ZONE_RESOURCE_POOL_EXHAUSTED: {text}"


def _gcp_group(store: ResourceStore, row: ResourceRow, inputs: PlainValues) -> Iterator[str]:
    """Check flex-start and flexible groups (instance-groups/create-resize-requests-mig, about-instance-flexibility)."""
    del row
    model = (get_gcp_template(store, inputs).get("scheduling") or {}).get("provisioningModel")
    action = (inputs.get("instanceLifecyclePolicy") or {}).get("defaultActionOnFailure", "REPAIR")
    if model == "FLEX_START":
        if inputs.get("targetSize"):
            yield "INVALID_ARGUMENT: a group of Flex-start VMs grows by resize requests; leave targetSize unset"
        if action != "DO_NOTHING":
            yield "INVALID_ARGUMENT: a group of Flex-start VMs needs defaultActionOnFailure DO_NOTHING"
        if inputs.get("autoHealingPolicies"):
            yield "INVALID_ARGUMENT: a group of Flex-start VMs has no autohealing"
    shape = inputs.get("distributionPolicyTargetShape", "EVEN")
    if inputs.get("instanceFlexibilityPolicy") and shape == "EVEN" and "region" in inputs:
        shapes = "ANY, ANY_SINGLE_ZONE and BALANCED"
        yield f"INVALID_ARGUMENT: Instance flexibility policy is supported only for RMIGs with target shapes {shapes}"


def _gcp_autoscaler(store: ResourceStore, row: ResourceRow, inputs: PlainValues) -> Iterator[str]:
    """Autoscaled regional groups have shape EVEN or BALANCED (instance-groups/regional-mig-distribution-shape)."""
    del row
    target = str(inputs.get("target") or "").removeprefix(_API)
    group = store.get_resource(GCP_REGION_GROUP, target)
    shape = group.inputs.get("distributionPolicyTargetShape", "EVEN") if group else "EVEN"
    if shape not in ("EVEN", "BALANCED"):
        yield f"INVALID_ARGUMENT: an autoscaled regional group has shape EVEN or BALANCED, not {shape}"
    name = target.rpartition("/")[2]
    if any(
        str(fields.get("instanceGroupManager", "")).rpartition("/")[2] == name
        for _, fields in _rows(store, *_RESIZE_REQUESTS)
    ):
        yield "INVALID_ARGUMENT: a group with resize requests cannot be autoscaled"


def _gcp_resize_request(store: ResourceStore, row: ResourceRow, inputs: PlainValues) -> Iterator[str]:
    """Resize requests of a regional group need ANY_SINGLE_ZONE and no autoscaler (create-resize-requests-mig)."""
    del row
    name = str(inputs.get("instanceGroupManager") or "").rpartition("/")[2]
    groups = [fields for _, fields in _rows(store, GCP_REGION_GROUP) if fields.get("name") == name]
    if groups and groups[0].get("distributionPolicyTargetShape", "EVEN") != "ANY_SINGLE_ZONE":
        yield "INVALID_ARGUMENT: resize requests need a group with shape ANY_SINGLE_ZONE"
    if any(
        str(fields.get("target", "")).rpartition("/")[2] == name for _, fields in _rows(store, *_AUTOSCALERS)
    ):
        yield "INVALID_ARGUMENT: a group with an autoscaler takes no resize requests"


def _azure_reservation(store: ResourceStore, row: ResourceRow, inputs: PlainValues) -> Iterator[str]:
    """Zones of the group, one reservation per size and zone (capacity-reservation-overview.md)."""
    group = store.get_resource(_AZURE_GROUP, row.id.rpartition("/capacityReservations/")[0])
    zones, allowed = inputs.get("zones") or [], (group.inputs.get("zones") or []) if group else []
    if group and set(zones) - set(allowed):
        yield f"InvalidParameter: zone {zones[0]} is not a zone of the group ({', '.join(allowed) or 'it has none'})"
    if group and allowed and not zones:
        yield f"InvalidParameter: the group has zones {', '.join(allowed)}; name one"
    for other, fields in _rows(store, _AZURE_RESERVATION):
        same_group = other.id.rpartition("/")[0] == row.id.rpartition("/")[0]
        same_place = (fields.get("zones") or []) == zones and (fields.get("sku") or {}).get("name") == inputs[
            "sku"
        ].get("name")
        if other.id != row.id and same_group and same_place:
            name = fields.get("capacityReservationName")
            yield f"Conflict: the group has a reservation of {inputs['sku'].get('name')} there: {name}"


def _get_azure_group(profile: PlainValues) -> str:
    return str(
        ((profile.get("capacityReservation") or {}).get("capacityReservationGroup") or {}).get("id") or ""
    )


def _find_azure_users(store: ResourceStore, group: str) -> list[ResourceRow]:
    machines = [row for row, fields in _rows(store, AZURE_MACHINE) if _get_azure_group(fields) == group]
    sets = [
        row
        for row, fields in _rows(store, SCALE_SET)
        if _get_azure_group(fields.get("virtualMachineProfile") or {}) == group
    ]
    return machines + sets


def _describe_azure_use(inputs: PlainValues) -> tuple[str, list[Any]]:
    size = (inputs.get("hardwareProfile") or {}).get("vmSize") or (inputs.get("sku") or {}).get("name")
    return str(size or ""), list(inputs.get("zones") or [])


def _uses_reservation(user: ResourceRow, reservation: ResourceRow) -> bool:
    size, zones = _describe_azure_use(unwrap_secrets(user.inputs))
    held = unwrap_secrets(reservation.inputs)
    return size == held["sku"].get("name") and (not held.get("zones") or set(zones) == set(held["zones"]))


def _azure_user(store: ResourceStore, row: ResourceRow, inputs: PlainValues) -> Iterator[str]:
    """Check that the group has a reservation of the size and the zone (capacity-reservation-overview.md)."""
    group = _get_azure_group(inputs.get("virtualMachineProfile") or inputs)
    if not group or store.get_resource(_AZURE_GROUP, group) is None:
        return
    held = [fields for other, fields in _rows(store, _AZURE_RESERVATION) if other.id.startswith(f"{group}/")]
    size, zones = _describe_azure_use(inputs)
    sizes = [fields for fields in held if fields["sku"].get("name") == size]
    if not sizes:
        yield f"BadRequest: the capacity reservation group has no reservation of {size}"
    for zone in zones:
        if sizes and not any(zone in (fields.get("zones") or []) for fields in sizes):
            yield f"BadRequest: the capacity reservation group has no reservation of {size} in zone {zone}"
    if sizes and not zones and all(fields.get("zones") for fields in sizes):
        yield f"BadRequest: the reservations of {size} are in zones; the machine names none"
    del row


def _azure_autoscale(store: ResourceStore, row: ResourceRow, inputs: PlainValues) -> Iterator[str]:
    """Try and restore is disabled in scale sets that use autoscale (use-spot.md)."""
    del row
    group = store.get_resource(SCALE_SET, str(inputs.get("targetResourceUri")))
    bounds = [(profile.get("capacity") or {}).get("maximum") for profile in inputs.get("profiles") or []]
    most = max((int(str(bound)) for bound in bounds if str(bound).isdecimal()), default=0)
    is_uniform = group is not None and group.inputs.get("orchestrationMode") != "Flexible"
    if group and group.inputs.get("singlePlacementGroup", is_uniform) and most > _MAX_SINGLE_PLACEMENT_GROUP:
        yield f"InvalidParameter: a single placement group has at most {_MAX_SINGLE_PLACEMENT_GROUP}, got {most}"
    if group and group.inputs.get("spotRestorePolicy"):
        yield "BadRequest: a scale set with spotRestorePolicy cannot be autoscaled"


_CHECKS: dict[str, Check] = {
    "aws:ec2/eip:Eip": _elastic_ip,
    AWS_INSTANCE: _aws_instance,
    "aws:ec2/volumeAttachment:VolumeAttachment": _volume_attachment,
    AWS_GROUP: _aws_group,
    GCP_INSTANCE: _gcp_instance,
    GCP_REGION_GROUP: _gcp_group,
    "gcp:compute/instanceGroupManager:InstanceGroupManager": _gcp_group,
    **dict.fromkeys(_AUTOSCALERS, _gcp_autoscaler),
    **dict.fromkeys(_RESIZE_REQUESTS, _gcp_resize_request),
    _AZURE_RESERVATION: _azure_reservation,
    AZURE_MACHINE: _azure_user,
    SCALE_SET: _azure_user,
    "azure-native:monitor:AutoscaleSetting": _azure_autoscale,
}
