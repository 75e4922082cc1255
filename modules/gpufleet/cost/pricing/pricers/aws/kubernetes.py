"""EKS: control planes and managed node groups."""

from __future__ import annotations

from dataclasses import replace

from gpufleet.cost.money import Range
from gpufleet.cost.pricing.pricers.aws.address import list_public_address
from gpufleet.cost.pricing.pricers.aws.kubernetes_support import find_extended_support_note, is_version
from gpufleet.cost.pricing.pricers.aws.launch import (
    TEMPLATE_OUTSIDE,
    TYPE,
    buy_machines,
    find_template,
    list_launched_parts,
)
from gpufleet.cost.pricing.pricers.aws.location import find_possible_zones, pricer
from gpufleet.cost.pricing.pricers.aws.machine import (
    IN_CAPACITY_BLOCK,
    WINDOWS,
    bills_machine,
    find_platform,
    find_reservation_claim,
    list_platform_licences,
)
from gpufleet.cost.pricing.pricers.group_size import group_size_range
from gpufleet.cost.pricing.pricers.part_names import KUBERNETES
from gpufleet.cost.pricing.pricers.reader import Parts, Reader
from gpufleet.engine import StateResource

# The whole control plane, of a version past standard support.
EXTENDED_SUPPORT = f"{KUBERNETES}:extended_support"
STANDARD_TIER = "standard"
DEFAULT_TYPE = "t3.medium"  # the provider's documentation of instanceTypes
DEFAULT_DISK_GIB, WINDOWS_DISK_GIB = 20, 50  # the provider's documentation of diskSize
NODE_DISKS = (
    "ebs:gp3",
    "ebs:gp2",
)  # what the images of EKS set: of Amazon Linux 2023 gp3, of Amazon Linux 2 gp2
DISK_TYPE = "EKS chooses the type of the volume of each node"
BY_POD = "Fargate bills each pod by what it requests, which the program does not declare"
SIZES = ("scalingConfig.minSize", "scalingConfig.desiredSize", "scalingConfig.maxSize")


@pricer("aws:eks/cluster:Cluster")
def price_eks_cluster(cluster: Reader) -> Parts:
    """Yield a control plane. What Auto Mode starts follows the pods, which the program does not declare."""
    cluster = cluster.all_month()
    with cluster.of("control_plane") as plane:
        declines = plane.find_text("upgradePolicy.supportType") == "STANDARD"
        version = None if declines else plane.find_text("version")
        note = find_extended_support_note(version, plane.graph.on_date)
        yield plane.part(EXTENDED_SUPPORT if note else KUBERNETES, note=note)
    with cluster.of("version") as version_line:
        text = version_line.text("version", "its version", "")
        if text and not is_version(text):
            raise version_line.refuse(f"{text} is not a version: an old one bills more")
    with cluster.of("control_plane_tier") as tier_line:
        tier = tier_line.text("controlPlaneScalingConfig.tier", "its control plane's tier", STANDARD_TIER)
        if tier != STANDARD_TIER:
            yield tier_line.part(f"{KUBERNETES}:{tier}")
    with cluster.of("machine") as machine:
        if machine.flag("computeConfig.enabled", "whether it has Auto Mode"):
            raise machine.refuse("EKS Auto Mode starts machines as pods ask for them")


@pricer("aws:eks/fargateProfile:FargateProfile")
def price_fargate_profile(profile: Reader) -> Parts:
    """Refuse the pods of a Fargate profile: they bill by what they request."""
    raise profile.of("pods").refuse(BY_POD)


@pricer("aws:eks/nodeGroup:NodeGroup")
def price_eks_node_group(group: Reader) -> Parts:
    """Yield a managed node group between its least and greatest size."""
    template = find_template(group, "launchTemplate.id", "launchTemplate.name")
    group = replace(group, inputs={"subnetIds": [], **group.inputs})  # EKS requires subnets
    group = _buy_nodes(group, template).times(lambda: _count_nodes(group))
    with group.of("machine") as machine:
        yield from _list_machines(machine, template)
    yield from list_platform_licences(group)
    if group.has("launchTemplate"):
        yield from list_launched_parts(template, group)
        return
    yield from list_public_address(group, group)
    with group.of("disk:root") as disk:
        is_windows = WINDOWS in find_platform(group)
        size = disk.number(
            "diskSize", "size of its disk", WINDOWS_DISK_GIB if is_windows else DEFAULT_DISK_GIB
        )
        part = disk.part(NODE_DISKS[0], size=size, note=DISK_TYPE)
        yield part and replace(part, items=NODE_DISKS)


def _buy_nodes(group: Reader, template: StateResource | None) -> Reader:
    """Return the reader of what the group buys: as its capacity type says, else as its template does."""
    bought, capacity_type = buy_machines(group, template), group.find_text("capacityType")
    if capacity_type not in ("SPOT", "ON_DEMAND"):
        return bought
    return group.bought(template, spot=capacity_type == "SPOT", max_price=bought.terms.max_price)


def _count_nodes(group: Reader) -> Range:
    return group.resize(group_size_range(*map(group.find_number, SIZES)), "node group size")


def _list_machines(machine: Reader, template: StateResource | None) -> Parts:
    capacity_type = machine.text("capacityType", "capacity type", "")
    launch = machine.reading(template) if template else None
    if launch and not bills_machine(launch):
        return
    if capacity_type == "CAPACITY_BLOCK":
        raise machine.refuse(IN_CAPACITY_BLOCK)
    claim = None
    if launch:
        is_windows = WINDOWS in (find_platform(launch), find_platform(machine))
        claim = find_reservation_claim(launch, find_possible_zones(machine), WINDOWS if is_windows else "")
    names = _find_types(machine, launch)
    part = machine.machines(names[0])
    yield part and replace(part, items=names, claim=claim)


def _find_types(machine: Reader, launch: Reader | None) -> tuple[str, ...]:
    """Return the types of a node group: its own, else its template's, else EKS's default."""
    if entries := machine.entries("instanceTypes", "instance type"):
        return tuple(each.text("", "instance type") for each in entries)
    if launch is None and machine.has("launchTemplate"):
        raise machine.refuse(TEMPLATE_OUTSIDE)
    return ((launch or machine).text(TYPE, "instance type", DEFAULT_TYPE),)
