"""Groups of a simulated cloud: what they want, and the machines that they start and stop.

A group is an Auto Scaling group, an EC2 fleet, a managed instance group or a scale set. After every change in the store
``reconcile_groups`` starts what is missing, in the zones and of the machines that the group may use, and stops what is
too much. A group that finds no capacity stays short, as in the real clouds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from gpufleet.rehearsal.providers.faults import MachineRequest, find_capacity_error
from gpufleet.rehearsal.providers.property_values import PlainValues, unwrap_secrets
from gpufleet.rehearsal.providers.schema import CloudSchema
from gpufleet.rehearsal.providers.store import MemberRow, ResourceRow, ResourceStore

AWS_GROUP = "aws:autoscaling/group:Group"
AWS_FLEET = "aws:ec2/fleet:Fleet"
GCP_GROUP = "gcp:compute/instanceGroupManager:InstanceGroupManager"
GCP_REGION_GROUP = "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager"
SCALE_SET = "azure-native:compute:VirtualMachineScaleSet"
_SUBNETS = {
    "aws": ("aws:ec2/subnet:Subnet", "cidrBlock"),
    "gcp": ("gcp:compute/subnetwork:Subnetwork", "ipCidrRange"),
    "azure-native": ("azure-native:network:Subnet", "addressPrefix"),
}
_API = "https://www.googleapis.com/compute/v1/"
SIZE = "size"
_DEFAULT_BLOCK = "10.255.0.0/16"


@dataclass(frozen=True)
class GroupPlan:
    """What a group wants: its size, and the machines, zones, purchase and subnets that it may use, in this order."""

    size: int
    machines: tuple[str, ...]
    zones: tuple[tuple[str, str], ...]  # (zone, id of its subnet)
    purchase: str
    prefix: str
    has_public_address: bool
    on_demand_base: int = 0  # so many of the first machines are on demand, whatever the purchase


@dataclass(frozen=True)
class MemberPlace:
    """Where and as what a group starts its next machine."""

    number: int
    request: MachineRequest
    subnet: str


def reconcile_groups(schema: CloudSchema, store: ResourceStore) -> None:
    """Start and stop machines until every group has what it wants, or what its cloud can give."""
    planners = {kind: planner for kind, planner in _PLANNERS.items() if kind.startswith(f"{schema.cloud}:")}
    groups = store.find_resources_by_type(*planners)
    ids = {group.id for group in groups}
    for member in store.find_members():
        if member.group_id not in ids:
            store.delete_member(member)
            store.delete_counters(member.group_id)
    for group in groups:
        _reconcile(schema, store, group, planners[group.type](store, group))


def _reconcile(schema: CloudSchema, store: ResourceStore, group: ResourceRow, plan: GroupPlan) -> None:
    members = store.find_members(group.id)
    for member in members[plan.size :]:
        store.delete_member(member)
    taken = {member.number for member in members}
    numbers = (number for number in range(plan.size + len(members)) if number not in taken)
    for _ in range(plan.size - len(members)):
        number = next(numbers)
        place = _find_capacity(schema, store, plan, number)
        if place is None:
            return
        _start_member(schema, store, group, plan, place)


def _find_capacity(
    schema: CloudSchema, store: ResourceStore, plan: GroupPlan, number: int
) -> MemberPlace | None:
    """Return the first machine and zone that the cloud has; members are spread over the zones."""
    purchase = "on_demand" if number < plan.on_demand_base else plan.purchase
    start = number % len(plan.zones)
    for machine in plan.machines:
        for zone, subnet in plan.zones[start:] + plan.zones[:start]:
            request = MachineRequest(machine, zone, purchase)
            count = partial(count_machines, store, request)
            if find_capacity_error(store, schema.cloud, request, count) is None:
                return MemberPlace(number, request, subnet)
    return None


def find_missing_capacity(schema: CloudSchema, store: ResourceStore, group: ResourceRow) -> str | None:
    """Return why a group has fewer machines than it wants, in the words of its cloud; None if it has them all."""
    plan = _PLANNERS[group.type](store, group)
    if len(store.find_members(group.id)) >= plan.size:
        return None
    request = MachineRequest(plan.machines[0], plan.zones[0][0], plan.purchase)
    return find_capacity_error(store, schema.cloud, request, partial(count_machines, store, request))


def count_machines(store: ResourceStore, request: MachineRequest) -> int:
    """Return how many machines of this type and purchase exist already: what a quota counts."""
    members = [
        member
        for member in store.find_members()
        if (member.machine, member.purchase) == (request.machine, request.purchase)
    ]
    singles = [
        row
        for row in store.find_resources_by_type(*SINGLE_MACHINES)
        if (single := describe_single_machine(row.type, row.inputs))
        and (single.machine, single.purchase) == (request.machine, request.purchase)
    ]
    return len(members) + len(singles)


def _start_member(
    schema: CloudSchema, store: ResourceStore, group: ResourceRow, plan: GroupPlan, place: MemberPlace
) -> None:
    number, request = place.number, place.request
    generation = store.get_counter(group.id, f"start {number}") or 0
    digest = hashlib.sha256(f"{group.type} {group.id}/{number}/{generation}".encode()).hexdigest()
    if schema.cloud == "aws":
        identity, name = f"i-{digest[:17]}", f"{plan.prefix}-{digest[:8]}"
    elif schema.cloud == "gcp":
        identity, name = str(int(digest[:15], 16)), f"{plan.prefix}-{digest[:6]}"
    else:
        identity, name = f"{group.id}/virtualMachines/{number}", f"{plan.prefix}_{number}"
    kind, key = _SUBNETS[schema.cloud]
    row = store.get_resource(kind, place.subnet.removeprefix(_API))
    block = str(row.inputs[key]) if row else _DEFAULT_BLOCK
    private = store.lease_ip_address(block, "member", identity, "private")
    public = (
        store.lease_public_address(schema.public_network, "member", identity)
        if plan.has_public_address
        else ""
    )
    store.put_member(
        MemberRow(
            identity,
            group.type,
            group.id,
            number,
            name,
            request.zone,
            request.machine,
            request.purchase,
            private,
            public,
        )
    )
    store.set_counter(group.id, f"start {number}", generation + 1)


def _first(items: Any) -> PlainValues:
    return items[0] if isinstance(items, list) and items and isinstance(items[0], dict) else {}


def find_aws_template(store: ResourceStore, specification: PlainValues) -> PlainValues:
    """Return the inputs of the launch template that a specification names; empty if it does not exist."""
    wanted = specification.get("launchTemplateId") or specification.get("id")
    name = specification.get("launchTemplateName") or specification.get("name")
    for row in store.find_resources_by_type("aws:ec2/launchTemplate:LaunchTemplate"):
        if row.id == wanted or (name and row.inputs.get("name") == name):
            template: PlainValues = unwrap_secrets(row.inputs)
            return template
    return {}


def _aws_zones(store: ResourceStore, subnets: list[Any]) -> tuple[tuple[str, str], ...]:
    rows = [(str(subnet), store.get_resource("aws:ec2/subnet:Subnet", str(subnet))) for subnet in subnets]
    zones = tuple((str(row.outputs.get("availabilityZone") or ""), subnet) for subnet, row in rows if row)
    return zones or (("", ""),)


def _is_true(value: Any) -> bool:
    return value is True or value == "true"


def _plan_aws_group(store: ResourceStore, group: ResourceRow) -> GroupPlan:
    inputs = unwrap_secrets(group.inputs)
    policy = inputs.get("mixedInstancesPolicy") or {}
    mixed = policy.get("launchTemplate") or {}
    template = find_aws_template(
        store, mixed.get("launchTemplateSpecification") or inputs.get("launchTemplate") or {}
    )
    machines = tuple(
        str(item.get("instanceType")) for item in mixed.get("overrides") or [] if item.get("instanceType")
    )
    distribution = policy.get("instancesDistribution") or {}
    size = group.outputs.get("desiredCapacity", inputs.get("desiredCapacity", inputs.get("minSize")))
    wanted = store.get_counter(group.id, SIZE)  # set by an alarm's policy
    zones = _aws_zones(store, inputs.get("vpcZoneIdentifiers") or [])
    if zones == (("", ""),):
        zones = tuple((str(zone), "") for zone in inputs.get("availabilityZones") or []) or zones
    share = float(distribution.get("onDemandPercentageAboveBaseCapacity", 100))
    purchase = "spot" if policy and share == 0 else get_aws_purchase(template)
    return GroupPlan(
        int(size or 0) if wanted is None else wanted,
        machines or (str(template.get("instanceType") or ""),),
        zones,
        purchase,
        str(inputs.get("name")),
        _is_true(_first(template.get("networkInterfaces")).get("associatePublicIpAddress")),
        int(distribution.get("onDemandBaseCapacity") or 0),
    )


def _plan_aws_fleet(store: ResourceStore, group: ResourceRow) -> GroupPlan:
    inputs = unwrap_secrets(group.inputs)
    config, capacity = (
        _first(inputs.get("launchTemplateConfigs")),
        inputs.get("targetCapacitySpecification") or {},
    )
    template = find_aws_template(store, config.get("launchTemplateSpecification") or {})
    overrides = config.get("overrides") or []
    machines = dict.fromkeys(str(item["instanceType"]) for item in overrides if item.get("instanceType"))
    subnets = list(dict.fromkeys(item["subnetId"] for item in overrides if item.get("subnetId")))
    is_spot = capacity.get("defaultTargetCapacityType") == "spot"
    return GroupPlan(
        int(capacity.get("totalTargetCapacity") or 0),
        tuple(machines) or (str(template.get("instanceType") or ""),),
        _aws_zones(store, subnets or [_first(template.get("networkInterfaces")).get("subnetId")]),
        "spot" if is_spot else get_aws_purchase(template),
        str((inputs.get("tags") or {}).get("Name") or group.id),
        _is_true(_first(template.get("networkInterfaces")).get("associatePublicIpAddress")),
        int(capacity.get("onDemandTargetCapacity") or 0) if is_spot else 0,
    )


def _gcp_size(store: ResourceStore, group: ResourceRow, inputs: PlainValues) -> int:
    size = int(inputs.get("targetSize") or 0)
    for row in store.find_resources_by_type(
        "gcp:compute/regionAutoscaler:RegionAutoscaler", "gcp:compute/autoscaler:Autoscaler"
    ):
        if str(row.inputs.get("target", "")).removeprefix(_API) == group.id:
            policy = unwrap_secrets(row.inputs).get("autoscalingPolicy") or {}
            size = min(max(size, int(policy.get("minReplicas") or 0)), int(policy.get("maxReplicas") or 0))
    for row in store.find_resources_by_type(
        "gcp:compute/regionResizeRequest:RegionResizeRequest", "gcp:compute/resizeRequest:ResizeRequest"
    ):
        if str(row.inputs.get("instanceGroupManager", "")).rpartition("/")[2] == inputs.get("name"):
            size += int(row.inputs.get("resizeBy") or 0)
    return size


def get_gcp_template(store: ResourceStore, inputs: PlainValues) -> PlainValues:
    """Return the template of a group's first version; empty if it does not exist."""
    reference = (
        str(_first(inputs.get("versions")).get("instanceTemplate") or "").removeprefix(_API).split("?")[0]
    )
    for kind in (
        "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate",
        "gcp:compute/instanceTemplate:InstanceTemplate",
    ):
        if row := store.get_resource(kind, reference):
            template: PlainValues = unwrap_secrets(row.inputs)
            return template
    return {}


def _plan_gcp_group(store: ResourceStore, group: ResourceRow) -> GroupPlan:
    inputs = unwrap_secrets(group.inputs)
    template = get_gcp_template(store, inputs)
    interface = _first(template.get("networkInterfaces"))
    region = str(inputs.get("region") or str(inputs.get("zone", "")).rpartition("-")[0])
    names = inputs.get("distributionPolicyZones") or [inputs.get("zone") or f"{region}-a"]
    if inputs.get("distributionPolicyTargetShape") == "ANY_SINGLE_ZONE":
        names = names[:1]
    flexible = (inputs.get("instanceFlexibilityPolicy") or {}).get("instanceSelections") or []
    machines = [str(name) for item in flexible for name in item.get("machineTypes") or []]
    return GroupPlan(
        _gcp_size(store, group, inputs),
        tuple(machines) or (str(template.get("machineType") or ""),),
        tuple((str(zone), str(interface.get("subnetwork") or "")) for zone in names),
        get_gcp_purchase(template),
        str(inputs.get("baseInstanceName") or inputs.get("name")),
        bool(interface.get("accessConfigs")),
    )


def _plan_scale_set(store: ResourceStore, group: ResourceRow) -> GroupPlan:
    inputs = unwrap_secrets(group.inputs)
    sku, profile = inputs.get("sku") or {}, inputs.get("virtualMachineProfile") or {}
    network = _first((profile.get("networkProfile") or {}).get("networkInterfaceConfigurations"))
    address = _first(network.get("ipConfigurations"))
    subnet = str((address.get("subnet") or {}).get("id") or "")
    size = int(sku.get("capacity") or 0)
    for row in store.find_resources_by_type("azure-native:monitor:AutoscaleSetting"):
        if row.inputs.get("targetResourceUri") == group.id and row.inputs.get("enabled", True):
            bounds = (_first(unwrap_secrets(row.inputs).get("profiles"))).get("capacity") or {}
            size = min(max(size, int(bounds.get("minimum") or 0)), int(bounds.get("maximum") or size))
    return GroupPlan(
        size,
        (str(sku.get("name") or ""),),
        tuple((str(zone), subnet) for zone in inputs.get("zones") or [""]),
        get_azure_purchase(profile),
        str(inputs.get("vmScaleSetName")),
        bool(address.get("publicIPAddressConfiguration")),
    )


def get_aws_purchase(inputs: PlainValues) -> str:
    """Return how an AWS machine is bought, by its own inputs or its template's."""
    market = (inputs.get("instanceMarketOptions") or {}).get("marketType")
    specification = inputs.get("capacityReservationSpecification") or {}
    if market == "capacity-block":
        return "capacity_block"
    if market == "spot":
        return "spot"
    return "reserved" if specification.get("capacityReservationTarget") else "on_demand"


def get_gcp_purchase(inputs: PlainValues) -> str:
    scheduling = inputs.get("scheduling") or {}
    model = scheduling.get("provisioningModel") or ("SPOT" if scheduling.get("preemptible") else "STANDARD")
    if model in ("SPOT", "FLEX_START"):
        return "spot" if model == "SPOT" else "flex_start"
    affinity = (inputs.get("reservationAffinity") or {}).get("type")
    return "reserved" if affinity == "SPECIFIC_RESERVATION" else "on_demand"


def get_azure_purchase(inputs: PlainValues) -> str:
    if inputs.get("priority") in ("Spot", "Low"):
        return "spot"
    return "reserved" if inputs.get("capacityReservation") else "on_demand"


AWS_INSTANCE = "aws:ec2/instance:Instance"
GCP_INSTANCE = "gcp:compute/instance:Instance"
AZURE_MACHINE = "azure-native:compute:VirtualMachine"
SINGLE_MACHINES = (AWS_INSTANCE, GCP_INSTANCE, AZURE_MACHINE)


def describe_single_machine(kind: str, inputs: PlainValues, zone: str = "") -> MachineRequest | None:
    """Return what a single machine asks its cloud for; None for another type of resource."""
    plain = unwrap_secrets(inputs)
    if kind == AWS_INSTANCE:
        return MachineRequest(str(plain.get("instanceType") or ""), zone, get_aws_purchase(plain))
    if kind == GCP_INSTANCE:
        name = str(plain.get("machineType") or "").rpartition("/")[2]
        return MachineRequest(name, str(plain.get("zone") or zone), get_gcp_purchase(plain))
    if kind == AZURE_MACHINE:
        size = (plain.get("hardwareProfile") or {}).get("vmSize")
        zones = plain.get("zones") or [zone]
        return MachineRequest(str(size or ""), str(zones[0]), get_azure_purchase(plain))
    return None


_PLANNERS: dict[str, Callable[[ResourceStore, ResourceRow], GroupPlan]] = {
    AWS_GROUP: _plan_aws_group,
    AWS_FLEET: _plan_aws_fleet,
    GCP_GROUP: _plan_gcp_group,
    GCP_REGION_GROUP: _plan_gcp_group,
    SCALE_SET: _plan_scale_set,
}
