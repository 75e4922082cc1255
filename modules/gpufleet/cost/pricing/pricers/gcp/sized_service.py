"""Services that bill by a size and a variant of it: slots of an edition, hours of a tier, links of a speed.

Each is a row of the table: where its inputs have the variant and the size, and the item of the price list.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import Number, Text, read_input_number, read_input_text
from gpufleet.cost.pricing.component import Components, CostComponent, UnpricedComponent
from gpufleet.cost.pricing.pricers.extensions import Pricer
from gpufleet.cost.pricing.pricers.gcp.location import last_url_segment
from gpufleet.cost.pricing.pricers.gcp.service import GLOBAL, exact_count, service_context
from gpufleet.cost.pricing.pricers.group_size import group_size_range
from gpufleet.cost.pricing.pricers.required_input import number_or_unpriced, text_or_unpriced
from gpufleet.engine import StateResource

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class SizedPart:
    """One part of a service. Without a variant the item is ``item``, with one ``item:variant``.

    ``default`` is the size of a resource that gives none; ``maximum`` is where an autoscaled one has its upper bound.
    """

    component: str
    item: str
    variant: Path = ()
    default_variant: str = ""
    size: Path = ()
    default: Decimal | None = Decimal(1)
    maximum: Path = ()
    suffix: str = ""
    is_global: bool = False


@dataclass(frozen=True)
class SizedServiceInputs:
    """The inputs of a part: its variant, its size, and the upper bound of the size."""

    variant: Text
    size: Number
    maximum: Number


PARTS: dict[str, tuple[SizedPart, ...]] = {
    "gcp:apigee/environment:Environment": (
        SizedPart("environment", "apigee:environment", ("type",), "base", is_global=True),
    ),
    "gcp:apigee/instance:Instance": (SizedPart("instance", "apigee:instance"),),
    "gcp:bigquery/capacityCommitment:CapacityCommitment": (
        SizedPart(
            "slots", "bigquery", ("edition",), "standard", ("slotCount",), None, suffix=":committed_slot"
        ),
    ),
    "gcp:bigquery/reservation:Reservation": (
        SizedPart(
            "slots",
            "bigquery",
            ("edition",),
            "standard",
            ("slotCapacity",),
            None,
            ("autoscale", "maxSlots"),
            ":slot",
        ),
    ),
    "gcp:cloudids/endpoint:Endpoint": (SizedPart("endpoint", "cloud_ids:endpoint"),),
    "gcp:composer/environment:Environment": (
        SizedPart("environment", "composer", ("config", "environmentSize"), "environment_size_small"),
    ),
    "gcp:compute/interconnect:Interconnect": (
        SizedPart("links", "interconnect", ("linkType",), "", ("requestedLinkCount",), is_global=True),
    ),
    "gcp:compute/interconnectAttachment:InterconnectAttachment": (
        SizedPart("attachment", "interconnect:attachment", ("bandwidth",), "dedicated"),
    ),
    "gcp:compute/nodeGroup:NodeGroup": (
        SizedPart(
            "nodes", "sole_tenant_node", (), "", ("initialSize",), maximum=("autoscalingPolicy", "maxNodes")
        ),
    ),
    "gcp:compute/storagePool:StoragePool": (
        SizedPart("capacity", "storage_pool", ("storagePoolType",), "", ("poolProvisionedCapacityGb",), None),
    ),
    "gcp:datafusion/instance:Instance": (SizedPart("instance", "data_fusion", ("type",), "basic"),),
    "gcp:dataproc/metastoreService:MetastoreService": (
        SizedPart("instance", "dataproc_metastore", ("tier",), "developer"),
    ),
    "gcp:looker/instance:Instance": (SizedPart("instance", "looker", ("platformEdition",), ""),),
    "gcp:managedkafka/cluster:Cluster": (
        SizedPart("vcpus", "managed_kafka:vcpu", (), "", ("capacityConfig", "vcpuCount"), None),
    ),
    "gcp:managedkafka/connectCluster:ConnectCluster": (
        SizedPart("vcpus", "managed_kafka:connect_vcpu", (), "", ("capacityConfig", "vcpuCount"), None),
    ),
    "gcp:vertex/aiFeatureOnlineStore:AiFeatureOnlineStore": (
        SizedPart(
            "nodes",
            "vertex:feature_store_node",
            (),
            "",
            ("bigtable", "autoScaling", "minNodeCount"),
            maximum=("bigtable", "autoScaling", "maxNodeCount"),
        ),
    ),
    "gcp:vertex/aiFeatureStore:AiFeatureStore": (
        SizedPart(
            "nodes",
            "vertex:feature_store_node",
            (),
            "",
            ("onlineServingConfig", "fixedNodeCount"),
            maximum=("onlineServingConfig", "scaling", "maxNodeCount"),
        ),
    ),
    "gcp:vmwareengine/privateCloud:PrivateCloud": (
        SizedPart(
            "nodes",
            "vmware_engine",
            ("managementCluster", "nodeTypeConfigs", 0, "nodeTypeId"),
            "standard-72",
            ("managementCluster", "nodeTypeConfigs", 0, "nodeCount"),
            Decimal(3),
        ),
    ),
    "gcp:workstations/workstationCluster:WorkstationCluster": (SizedPart("cluster", "workstations:cluster"),),
}


def parse_sized_service_inputs(inputs: Any, part: SizedPart) -> SizedServiceInputs:
    """Parse a part's variant and size."""
    return SizedServiceInputs(
        variant=read_input_text(inputs, *part.variant) if part.variant else None,
        size=read_input_number(inputs, *part.size) if part.size else part.default,
        maximum=read_input_number(inputs, *part.maximum) if part.maximum else None,
    )


def price_sized_service(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the parts of a service by their sizes."""
    return [_price_part(resource, graph, part) for part in PARTS[resource.type]]


def _price_part(
    resource: StateResource, graph: ResourceGraph, part: SizedPart
) -> CostComponent | UnpricedComponent:
    inputs = parse_sized_service_inputs(resource.inputs, part)
    size = number_or_unpriced(inputs.size, "its size", part.component, part.default)
    if isinstance(size, UnpricedComponent):
        return size
    item = part.item
    if part.variant:
        known = part.default_variant if inputs.variant is None and part.default_variant else inputs.variant
        variant = text_or_unpriced(known, "its kind", part.component)
        if isinstance(variant, UnpricedComponent):
            return variant
        item = f"{item}:{last_url_segment(variant).lower()}"
    count = exact_count(size)
    if inputs.maximum is not None:
        bounded = group_size_range(size, None, inputs.maximum)
        if bounded is None:
            return UnpricedComponent("its largest size is not known until deployment", part.component)
        count = bounded
    context = service_context(resource, graph, GLOBAL if part.is_global else None, count)
    return context.make_part_component(part.component, item + part.suffix)


PRICERS: dict[str, Pricer] = dict.fromkeys(PARTS, price_sized_service)
