"""Disks of Kubernetes objects: claims, the claims of stateful sets, and volumes that name an existing disk.

A claim has a price if the program shows its storage class, or if the cluster's cloud is known and brings the class.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import (
    MARKER_REASONS,
    MAX_NUMBER,
    Number,
    Text,
    read_input,
    read_input_list,
    read_input_number,
    read_input_text,
    text_if_known,
)
from gpufleet.cost.money import Range
from gpufleet.cost.pricing.component import Components, MachinePartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers.aws.volume import (
    AttachedVolumes,
    EbsVolumeInputs,
    attached_volume_components,
)
from gpufleet.cost.pricing.pricers.azure.disk import managed_disk_part
from gpufleet.cost.pricing.pricers.kubernetes_cluster import find_cluster_place
from gpufleet.engine import StateResource, UnreadableValue

STORAGE_CLASSES = (
    "kubernetes:storage.k8s.io/v1:StorageClass",
    "kubernetes:storage.k8s.io/v1beta1:StorageClass",
)
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
# Provisioners that make disks, with the disk that each makes without a parameter (their documentation).
PROVISIONERS = {
    "ebs.csi.aws.com": ("aws", "gp3"),
    "ebs.csi.eks.amazonaws.com": ("aws", "gp3"),
    "kubernetes.io/aws-ebs": ("aws", "gp2"),
    "pd.csi.storage.gke.io": ("gcp", "pd-standard"),
    "kubernetes.io/gce-pd": ("gcp", "pd-standard"),
    "disk.csi.azure.com": ("azure", "StandardSSD_LRS"),
    "kubernetes.io/azure-disk": ("azure", "StandardSSD_LRS"),
}
# Classes that clusters of a cloud come with (the clouds' documentation of GKE and AKS; EKS brings gp2).
BUILT_IN_CLASSES = {
    ("aws", "gp2"): "gp2",
    ("gcp", "standard"): "pd-standard",
    ("gcp", "standard-rwo"): "pd-balanced",
    ("gcp", "premium-rwo"): "pd-ssd",
    ("azure", "default"): "StandardSSD_LRS",
    ("azure", "managed-csi"): "StandardSSD_LRS",
    ("azure", "managed-csi-premium"): "Premium_LRS",
    ("azure", "managed-premium"): "Premium_LRS",
}
DISK_RESOURCES = (
    "aws:ebs/volume:Volume",
    "gcp:compute/disk:Disk",
    "gcp:compute/regionDisk:RegionDisk",
    "azure-native:compute:Disk",
    "azure:compute/managedDisk:ManagedDisk",
)
HANDLES: tuple[tuple[str, ...], ...] = (
    ("csi", "volumeHandle"),
    ("awsElasticBlockStore", "volumeID"),
    ("gcePersistentDisk", "pdName"),
    ("azureDisk", "diskURI"),
)
_QUANTITY = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)([kMGTP]|[KMGTP]i)?")
_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_UNITS |= {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}


@dataclass(frozen=True)
class VolumeClaimInputs:
    """The inputs of a volume claim: its size as Kubernetes writes it (100Gi), and its class."""

    requested_size: Text
    storage_class: Text
    is_bound: bool


@dataclass(frozen=True)
class StatefulSetInputs:
    """The inputs of a stateful set: each of its replicas gets a disk for each claim."""

    replicas: Number
    claims: tuple[tuple[str, VolumeClaimInputs], ...]


@dataclass(frozen=True)
class StorageClassInputs:
    """The disk that a class makes. ``disk_type`` is None if its cloud's default counts."""

    name: str
    provisioner: str
    disk_type: Text
    is_regional: bool
    is_default: bool
    iops: Number
    throughput: Number


def parse_volume_claim_inputs(inputs: Any) -> VolumeClaimInputs:
    """Parse a volume claim, or a template of one."""
    return VolumeClaimInputs(
        requested_size=read_input_text(inputs, "spec", "resources", "requests", "storage"),
        storage_class=read_input_text(inputs, "spec", "storageClassName"),
        is_bound=isinstance(read_input(inputs, "spec"), dict)
        and read_input(inputs, "spec", "volumeName") not in (None, ""),
    )


def parse_stateful_set_inputs(inputs: Any) -> StatefulSetInputs:
    """Parse a stateful set."""
    replicas = read_input_number(inputs, "spec", "replicas")
    templates = enumerate(read_input_list(inputs, "spec", "volumeClaimTemplates"))
    return StatefulSetInputs(
        replicas=Decimal(1) if replicas is None else replicas,
        claims=tuple(
            (
                text_if_known(read_input_text(each, "metadata", "name")) or str(index),
                parse_volume_claim_inputs(each),
            )
            for index, each in templates
        ),
    )


def parse_storage_class_inputs(resource: StateResource) -> StorageClassInputs:
    """Parse a storage class."""
    inputs = resource.inputs
    keys = ("type", "skuName", "skuname", "storageaccounttype", "storageAccountType")
    types = (read_input_text(inputs, "parameters", key) for key in keys)
    return StorageClassInputs(
        name=text_if_known(read_input_text(inputs, "metadata", "name")) or resource.name,
        provisioner=text_if_known(read_input_text(inputs, "provisioner")) or "",
        disk_type=next((each for each in types if each is not None), None),
        is_regional=read_input_text(inputs, "parameters", "replication-type") == "regional-pd",
        is_default=read_input_text(inputs, "metadata", "annotations", DEFAULT_CLASS) == "true",
        iops=read_input_number(inputs, "parameters", "iops"),
        throughput=read_input_number(inputs, "parameters", "throughput"),
    )


def price_volume_claim(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the disk that a volume claim makes; one that names its volume bills with that."""
    claim = parse_volume_claim_inputs(resource.inputs)
    return [] if claim.is_bound else _claim_components("disk", claim, Decimal(1), resource, graph)


def price_stateful_set(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the disks that the claims of a stateful set make for each replica."""
    stateful_set = parse_stateful_set_inputs(resource.inputs)
    if stateful_set.claims and isinstance(stateful_set.replicas, UnreadableValue):
        return [
            UnpricedComponent(
                f"how many disks its claims make is {MARKER_REASONS[stateful_set.replicas]}", "disk"
            )
        ]
    replicas = stateful_set.replicas if isinstance(stateful_set.replicas, Decimal) else Decimal(1)
    components: Components = []
    for name, claim in stateful_set.claims if replicas else ():
        components += _claim_components(f"disk:{name}", claim, replicas, resource, graph)
    return components


def price_persistent_volume(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the existing disk that a volume names, unless this stack declares it or no cloud sells it."""
    for handle in HANDLES:
        path = ("spec", *handle)
        name = read_input_text(resource.inputs, *path)
        if name is None or graph.find_referenced_resource(resource, path, *DISK_RESOURCES):
            continue
        text = f" ({name})" if isinstance(name, str) else ""
        return [
            UnpricedComponent(f"it names an existing disk{text}, which bills where it is declared", "disk")
        ]
    return []


def parse_quantity_gib(text: str) -> Decimal | None:
    """Return a quantity of Kubernetes (10Gi, 500M) in GiB, rounded up as disks are; None if it is not one."""
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        return None
    gib = (Decimal(match[1]) * _UNITS[match[2] or ""] / 2**30).to_integral_value(ROUND_CEILING)
    return gib if 0 < gib <= MAX_NUMBER else None


def _claim_components(
    name: str, claim: VolumeClaimInputs, count: Decimal, resource: StateResource, graph: ResourceGraph
) -> Components:
    size = claim.requested_size
    size_gib = parse_quantity_gib(size) if isinstance(size, str) else None
    disk = f"disk of {size}" if isinstance(size, str) else "disk"
    if size_gib is None:
        return [UnpricedComponent(f"the cluster creates a {disk} for it, of a size that is not known", name)]
    cloud, region = find_cluster_place(resource, graph)
    storage_class = _find_storage_class(claim.storage_class, graph)
    if storage_class is None:
        disk_type = BUILT_IN_CLASSES.get((cloud, str(claim.storage_class)))
        storage_class = StorageClassInputs("", "", disk_type, False, False, None, None) if disk_type else None
    else:
        cloud, default_type = PROVISIONERS.get(storage_class.provisioner, ("", ""))
        region = find_cluster_place(resource, graph, cloud)[1]
        disk_type = (
            text_if_known(storage_class.disk_type) if storage_class.disk_type is not None else default_type
        )
    if storage_class is None or not disk_type or not cloud:
        return [
            UnpricedComponent(
                f"the cluster creates a {disk} for it, and the storage class chooses its type", name
            )
        ]
    context = replace(MachinePartContext(cloud, region), count=Range.from_exact_value(count))
    return _disk_components(name, disk_type, size_gib, storage_class, context)


def _find_storage_class(name: Text, graph: ResourceGraph) -> StorageClassInputs | None:
    classes = [parse_storage_class_inputs(each) for each in graph.resources_of_types(*STORAGE_CLASSES)]
    if name is None:
        matches = [each for each in classes if each.is_default]
    elif isinstance(name, str):
        matches = [each for each in classes if each.name == name]
    else:
        matches = classes  # a name that is known at deployment: the only class of the stack
    return matches[0] if len(matches) == 1 else None


def _disk_components(
    name: str,
    disk_type: str,
    size_gib: Decimal,
    storage_class: StorageClassInputs,
    context: MachinePartContext,
) -> Components:
    if context.cloud == "aws":
        volume = EbsVolumeInputs(size_gib, disk_type, storage_class.iops, storage_class.throughput)
        return attached_volume_components(AttachedVolumes(((name, volume),)), context)
    if context.cloud == "gcp":
        prefix = "regional-" if storage_class.is_regional else ""
        return [context.make_part_component(name, prefix + disk_type, size_gib)]
    part = managed_disk_part(disk_type, size_gib)
    if part is None:
        return [UnpricedComponent(f"no price for disk type {disk_type}", name)]
    return [context.make_part_component(name, part)]
