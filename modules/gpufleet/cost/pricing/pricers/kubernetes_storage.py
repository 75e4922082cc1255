"""Disks of Kubernetes objects: claims, the claims of stateful sets, and volumes that name an existing disk.

A claim has a price if the program shows its storage class, or if the cluster's cloud is known and brings the class.
"""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import ROUND_CEILING, Decimal

from gpufleet.cost.inputs.values import MAX_NUMBER, text_if_known
from gpufleet.cost.money import Range
from gpufleet.cost.pricing.pricers.aws.volume import list_volume
from gpufleet.cost.pricing.pricers.azure.disk import managed_disk_part
from gpufleet.cost.pricing.pricers.kubernetes_cluster import pricer, within_cluster
from gpufleet.cost.pricing.pricers.reader import Parts, Reader

STORAGE_CLASSES = (
    "kubernetes:storage.k8s.io/v1:StorageClass",
    "kubernetes:storage.k8s.io/v1beta1:StorageClass",
)
DEFAULT_CLASS = 'metadata.annotations["storageclass.kubernetes.io/is-default-class"]'
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
HANDLES = (
    "spec.csi.volumeHandle",
    "spec.awsElasticBlockStore.volumeID",
    "spec.gcePersistentDisk.pdName",
    "spec.azureDisk.diskURI",
)
DISK_TYPES = "type or skuName or skuname or storageaccounttype or storageAccountType"
REPLICATIONS = ("none", "regional-pd")
_QUANTITY = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)([kMGTP]|[KMGTP]i)?")
_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_UNITS |= {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}


@pricer("kubernetes:core/v1:PersistentVolumeClaim")
def price_volume_claim(claim: Reader) -> Parts:
    """Yield the disk that a volume claim makes; one that names its volume bills with that."""
    with claim.of("disk") as disk:
        specification = disk.inside("spec", "its specification")
        if specification.find_text("volumeName") in (None, ""):
            yield from _list_disk(claim, "disk")


@pricer("kubernetes:apps/v1:StatefulSet")
def price_stateful_set(stateful_set: Reader) -> Parts:
    """Yield the disks that the claims of a stateful set make for each replica."""
    name = "how many disks its claims make"
    replicas = stateful_set.times(
        lambda: Range.from_exact_value(stateful_set.number("spec.replicas", name, 1))
    )
    with replicas.of("disk") as disks:
        for index, claim in enumerate(disks.entries("spec.volumeClaimTemplates", name)):
            yield from _list_disk(claim, f"disk:{text_if_known(claim.find_text('metadata.name')) or index}")


@pricer("kubernetes:core/v1:PersistentVolume")
def price_persistent_volume(volume: Reader) -> Parts:
    """Refuse the existing disk that a volume names, unless this stack declares it or no cloud sells it."""
    for path in HANDLES:
        if volume.has(path) and not volume.find_resource(path, *DISK_RESOURCES):
            name = text_if_known(volume.find_text(path))
            text = f" ({name})" if name else ""
            raise volume.of("disk").refuse(
                f"it names an existing disk{text}, which bills where it is declared"
            )
    return iter(())


def parse_quantity_gib(text: str) -> Decimal | None:
    """Return a quantity of Kubernetes (10Gi, 500M) in GiB, rounded up as disks are; None if it is not one."""
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        return None
    gib = (Decimal(match[1]) * _UNITS[match[2] or ""] / 2**30).to_integral_value(ROUND_CEILING)
    return gib if 0 < gib <= MAX_NUMBER else None


def _list_disk(claim: Reader, name: str) -> Parts:
    """Yield the disk that the cluster makes for a claim."""
    with claim.all_month().of(name) as disk:
        text = text_if_known(disk.find_text("spec.resources.requests.storage"))
        creates = (
            f"the cluster creates a disk of {text} for it" if text else "the cluster creates a disk for it"
        )
        size = parse_quantity_gib(text) if text else None
        if size is None:
            raise disk.refuse(f"{creates}, of a size that is not known")
        parameters, disk_type = _find_parameters(disk)
        if not disk_type or not parameters.cloud:
            raise disk.refuse(f"{creates}, and the storage class chooses its type")
        yield from _list_typed_disk(parameters, name, disk_type, size)


def _find_parameters(claim: Reader) -> tuple[Reader, str]:
    """Return the reader of the parameters of a claim's storage class, where its disks are, and their type."""
    storage_class = _find_storage_class(claim)
    if storage_class is None:
        placed = within_cluster(claim)
        name = str(claim.find_text("spec.storageClassName"))
        return replace(placed, inputs={}), BUILT_IN_CLASSES.get((placed.cloud, name), "")
    provisioner = text_if_known(storage_class.find_text("provisioner")) or ""
    cloud, default_type = PROVISIONERS.get(provisioner, ("", ""))
    parameters = within_cluster(storage_class.inside("parameters"), cloud)
    declared = parameters.find_text(DISK_TYPES)
    return parameters, default_type if declared is None else text_if_known(declared) or ""


def _find_storage_class(claim: Reader) -> Reader | None:
    """Return the reader of a claim's storage class: of a name that is known at deployment the only one of the stack."""
    name = claim.find_text("spec.storageClassName")
    classes = [claim.reading(each) for each in claim.graph.resources_of_types(*STORAGE_CLASSES)]
    if name is None:
        classes = [each for each in classes if each.find_text(DEFAULT_CLASS) == "true"]
    elif isinstance(name, str):
        classes = [
            each
            for each in classes
            if (text_if_known(each.find_text("metadata.name")) or each.source.name) == name
        ]
    return classes[0] if len(classes) == 1 else None


def _list_typed_disk(disk: Reader, name: str, disk_type: str, size: Decimal) -> Parts:
    """Yield a disk of a type; its reader has the parameters of the storage class."""
    if disk.cloud == "aws":
        speeds = {unit: disk.find_text(unit) for unit in ("iops", "throughput")}
        yield from list_volume(replace(disk, inputs={"size": size, "type": disk_type, **speeds}), name)
    elif disk.cloud == "gcp":
        replication = disk.choice("replication-type", REPLICATIONS, "none", "its replication")
        prefix = "regional-" if replication == "regional-pd" else ""
        yield disk.part(prefix + disk_type, size=size)
    else:
        item = managed_disk_part(disk_type, size)
        if item is None:
            raise disk.refuse(f"no price for disk type {disk_type}")
        yield disk.part(item)
