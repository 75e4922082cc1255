"""Cloud Storage buckets: what they keep and the requests to it, by storage class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import Text, read_input_text
from gpufleet.cost.pricing.component import Components, UnpricedComponent
from gpufleet.cost.pricing.pricers.gcp.service import service_context
from gpufleet.cost.pricing.pricers.required_input import text_or_unpriced
from gpufleet.engine import StateResource

DEFAULT_CLASS = "STANDARD"
CLASSES_WITH_RETRIEVAL = ("nearline", "coldline", "archive")
# Classes of before 2019 that bill as a class of today (cloud.google.com/storage/docs/storage-classes).
LEGACY_CLASSES = {"MULTI_REGIONAL": "STANDARD", "REGIONAL": "STANDARD"}


@dataclass(frozen=True)
class BucketInputs:
    """The inputs of a bucket. The location is a region, a pair of regions or a continent."""

    location: Text
    storage_class: Text


def parse_bucket_inputs(inputs: Any) -> BucketInputs:
    """Parse a bucket."""
    return BucketInputs(read_input_text(inputs, "location"), read_input_text(inputs, "storageClass"))


def price_bucket(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return what a bucket keeps and reads, by the usage file."""
    bucket = parse_bucket_inputs(resource.inputs)
    location = text_or_unpriced(bucket.location, "its location", "storage")
    if isinstance(location, UnpricedComponent):
        return [location]
    if bucket.storage_class is not None and not isinstance(bucket.storage_class, str):
        return [UnpricedComponent("its storage class is not known until deployment", "storage")]
    declared = (bucket.storage_class or DEFAULT_CLASS).upper()
    storage_class = LEGACY_CLASSES.get(declared, declared).lower()
    context = service_context(resource, graph, location)
    usage = graph.usage_of_resource(resource)
    suffix = "" if storage_class == "standard" else f":{storage_class}"
    components: Components = [
        context.make_usage_component("storage", f"gcs:{storage_class}", "storage_gb", usage, is_stored=True),
        context.make_usage_component(
            "operations:a", f"gcs:class_a{suffix}", "monthly_class_a_operations", usage
        ),
        context.make_usage_component(
            "operations:b", f"gcs:class_b{suffix}", "monthly_class_b_operations", usage
        ),
    ]
    if storage_class in CLASSES_WITH_RETRIEVAL:
        components.append(
            context.make_usage_component(
                "retrieval", f"gcs:retrieval:{storage_class}", "monthly_data_retrieval_gb", usage
            )
        )
    return components
