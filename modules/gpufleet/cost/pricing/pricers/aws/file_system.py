"""File systems: EFS by what it stores, and FSx of four kinds by what is provisioned."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import (
    Number,
    Text,
    read_input,
    read_input_choice,
    read_input_number,
    read_input_text,
)
from gpufleet.cost.pricing.component import Components, UnpricedComponent
from gpufleet.cost.pricing.pricers.aws.service import (
    make_counted_component,
    make_service_context,
)
from gpufleet.cost.pricing.pricers.required_input import number_or_unpriced, text_or_unpriced
from gpufleet.engine import StateResource, UnreadableValue

INCLUDED_IOPS_PER_GIB = Decimal(3)  # of SSDs of OpenZFS, ONTAP and Windows file servers
DEFAULT_STORAGE = "ssd"
LUSTRE_DEFAULT_DEPLOYMENT = "SCRATCH_1"  # the provider's documentation of deploymentType


@dataclass(frozen=True)
class FsxInputs:
    """The inputs of a file system. ``throughput`` is MB/s in all, or of each pair of servers."""

    deployment: Text
    storage_type: Text
    storage_gib: Number
    throughput: Number
    server_pairs: Number
    iops: Number
    throughput_per_tib: Number


THROUGHPUT_MODES = ("bursting", "provisioned", "elastic")


@dataclass(frozen=True)
class EfsInputs:
    """The inputs of an EFS file system."""

    is_one_zone: bool
    is_provisioned: bool
    throughput_mibps: Number
    has_lifecycle: bool


def parse_fsx_inputs(inputs: Any) -> FsxInputs:
    """Parse an FSx file system of any kind."""
    per_pair = read_input_number(inputs, "throughputCapacityPerHaPair")
    pairs = read_input_number(inputs, "haPairs")
    has_own_iops = read_input_text(inputs, "diskIopsConfiguration", "mode") not in (None, "AUTOMATIC")
    return FsxInputs(
        deployment=read_input_text(inputs, "deploymentType"),
        storage_type=read_input_text(inputs, "storageType"),
        storage_gib=read_input_number(inputs, "storageCapacity"),
        throughput=per_pair if per_pair is not None else read_input_number(inputs, "throughputCapacity"),
        server_pairs=pairs if per_pair is not None else None,
        iops=read_input_number(inputs, "diskIopsConfiguration", "iops") if has_own_iops else None,
        throughput_per_tib=read_input_number(inputs, "perUnitStorageThroughput"),
    )


def parse_efs_inputs(inputs: Any) -> EfsInputs:
    """Parse an EFS file system."""
    return EfsInputs(
        is_one_zone=read_input(inputs, "availabilityZoneName") is not None,
        is_provisioned=read_input_choice(inputs, THROUGHPUT_MODES, "throughputMode")
        in ("provisioned", *UnreadableValue),
        throughput_mibps=read_input_number(inputs, "provisionedThroughputInMibps"),
        has_lifecycle=bool(read_input(inputs, "lifecyclePolicies")),
    )


def price_efs_file_system(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return what an EFS file system stores, and its provisioned throughput."""
    system = parse_efs_inputs(resource.inputs)
    context = make_service_context(resource, graph)
    usage = graph.usage_of_resource(resource)
    zone = "one_zone" if system.is_one_zone else "standard"
    components: Components = [
        context.make_usage_component("storage", f"efs:{zone}", "storage_gb", usage, is_stored=True)
    ]
    key = "infrequent_access_storage_gb"
    if system.has_lifecycle or key in usage.amounts:
        item = f"efs:{zone}:infrequent_access"
        components.append(
            context.make_usage_component("storage:infrequent_access", item, key, usage, is_stored=True)
        )
    for kind in ("read", "write"):
        key = f"monthly_infrequent_access_{kind}_gb"
        if key in usage.amounts:
            item = f"efs:infrequent_access:{kind}"
            components.append(context.make_usage_component(f"infrequent_access:{kind}", item, key, usage))
    if system.is_provisioned:
        amount = number_or_unpriced(system.throughput_mibps, "provisioned throughput", "throughput")
        components.append(
            amount
            if isinstance(amount, UnpricedComponent)
            else make_counted_component(context, "throughput", "efs:throughput", amount)
        )
    return components


def price_fsx_lustre(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a Lustre file system: its storage at the price of its throughput per TiB."""
    system = parse_fsx_inputs(resource.inputs)
    deployment = text_or_unpriced(
        system.deployment or LUSTRE_DEFAULT_DEPLOYMENT, "deployment type", "storage"
    )
    storage_type = text_or_unpriced(system.storage_type or DEFAULT_STORAGE, "storage type", "storage")
    speed = number_or_unpriced(system.throughput_per_tib, "throughput per TiB", "storage", Decimal(0))
    size_gib = number_or_unpriced(system.storage_gib, "storage capacity", "storage")
    for each in (deployment, storage_type, speed, size_gib):
        if isinstance(each, UnpricedComponent):
            return [each]
    item = f"fsx_lustre:{str(deployment).lower()}:{str(storage_type).lower()}"
    if speed:
        item += f":{speed}"
    context = make_service_context(resource, graph)
    return [
        make_counted_component(context, "storage", item, Decimal(str(size_gib))),
        *_backup_components(resource, graph, "fsx_lustre"),
    ]


def price_fsx_windows(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a Windows file server."""
    return _provisioned_components(resource, graph, "fsx_windows", "SINGLE_AZ_1")


def price_fsx_ontap(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return an ONTAP file system."""
    return _provisioned_components(resource, graph, "fsx_ontap", None)


def price_fsx_openzfs(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return an OpenZFS file system."""
    return _provisioned_components(resource, graph, "fsx_openzfs", None)


def _provisioned_components(
    resource: StateResource, graph: ResourceGraph, service: str, default_deployment: str | None
) -> Components:
    system = parse_fsx_inputs(resource.inputs)
    deployment = text_or_unpriced(system.deployment or default_deployment, "deployment type", "storage")
    if isinstance(deployment, UnpricedComponent):
        return [deployment]
    zones = _name_zones(service, deployment)
    if zones is None:
        return [UnpricedComponent(f"unknown deployment type {deployment}", "storage")]
    storage_type = text_or_unpriced(system.storage_type or DEFAULT_STORAGE, "storage type", "storage")
    if isinstance(storage_type, UnpricedComponent):
        return [storage_type]
    prefix = f"{service}:{zones}"
    context = make_service_context(resource, graph)
    components: Components = []
    size_gib = number_or_unpriced(system.storage_gib, "storage capacity", "storage")
    speed = number_or_unpriced(system.throughput, "throughput capacity", "throughput")
    pairs = number_or_unpriced(system.server_pairs, "the number of server pairs", "throughput", Decimal(1))
    if isinstance(size_gib, UnpricedComponent):
        return [size_gib]
    components.append(
        make_counted_component(context, "storage", f"{prefix}:{storage_type.lower()}", size_gib)
    )
    if isinstance(speed, UnpricedComponent):
        components.append(speed)
    elif isinstance(pairs, UnpricedComponent):
        components.append(pairs)
    else:
        components.append(make_counted_component(context, "throughput", f"{prefix}:throughput", pairs, speed))
    iops = number_or_unpriced(system.iops, "provisioned iops", "iops", Decimal(0))
    if isinstance(iops, UnpricedComponent):
        components.append(iops)
    elif iops > size_gib * INCLUDED_IOPS_PER_GIB:
        billed = iops - size_gib * INCLUDED_IOPS_PER_GIB
        components.append(make_counted_component(context, "iops", f"{prefix}:iops", billed))
    return [*components, *_backup_components(resource, graph, service)]


def _name_zones(service: str, deployment: str) -> str | None:
    """Return a deployment type as price lists name it: ONTAP's second generation has prices of its own."""
    if not deployment.startswith(("MULTI_AZ", "SINGLE_AZ")):
        return None
    zones = "multi_az" if deployment.startswith("MULTI_AZ") else "single_az"
    if "_HA_" in deployment:
        zones += "_ha"  # of OpenZFS: a standby in the same zone
    return f"{zones}_2" if service == "fsx_ontap" and deployment.endswith("_2") else zones


def _backup_components(resource: StateResource, graph: ResourceGraph, service: str) -> Components:
    usage = graph.usage_of_resource(resource)
    if "backup_storage_gb" not in usage.amounts:
        return []
    context = make_service_context(resource, graph)
    key = "backup_storage_gb"
    return [context.make_usage_component("backups", f"{service}:backup", key, usage, is_stored=True)]
