"""SageMaker: notebooks, endpoints and Studio applications, which bill by the instance and hour."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import (
    Number,
    Text,
    read_input,
    read_input_list,
    read_input_number,
    read_input_text,
)
from gpufleet.cost.money import Range
from gpufleet.cost.pricing.component import Components, UnpricedComponent
from gpufleet.cost.pricing.pricers.aws.service import (
    make_counted_component,
    make_instance_component,
    make_service_context,
)
from gpufleet.cost.pricing.pricers.required_input import (
    number_or_unpriced,
    text_or_unpriced,
    unpriced_if_unreadable,
)
from gpufleet.engine import StateResource, UnreadableValue

ENDPOINT_CONFIGURATION = "aws:sagemaker/endpointConfiguration:EndpointConfiguration"
SCALING_TARGET = "aws:appautoscaling/target:Target"
DEFAULT_NOTEBOOK_GIB = Decimal(5)  # the provider's documentation of volumeSize


@dataclass(frozen=True)
class NotebookInputs:
    """The inputs of a notebook."""

    instance_type: Text
    volume_gib: Number


@dataclass(frozen=True)
class EndpointVariant:
    """One variant of an endpoint; a serverless one bills by use."""

    name: str
    instance_type: Text
    instance_count: Number
    is_serverless: bool


def parse_notebook_inputs(inputs: Any) -> NotebookInputs:
    """Parse a notebook."""
    return NotebookInputs(read_input_text(inputs, "instanceType"), read_input_number(inputs, "volumeSize"))


def parse_endpoint_variants(inputs: Any) -> tuple[EndpointVariant, ...]:
    """Parse the variants of an endpoint's configuration, shadows included."""
    variants = [
        *read_input_list(inputs, "productionVariants"),
        *read_input_list(inputs, "shadowProductionVariants"),
    ]
    return tuple(
        EndpointVariant(
            name="instance" if index == 0 else f"instance:{index}",
            instance_type=read_input_text(variant, "instanceType"),
            instance_count=read_input_number(variant, "initialInstanceCount"),
            is_serverless=read_input(variant, "serverlessConfig") is not None,
        )
        for index, variant in enumerate(variants)
    )


def price_notebook(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a notebook's instance for the hours that it runs, and its volume."""
    notebook = parse_notebook_inputs(resource.inputs)
    instance_type = text_or_unpriced(notebook.instance_type, "instance type", "instance")
    size_gib = number_or_unpriced(notebook.volume_gib, "volume size", "storage", DEFAULT_NOTEBOOK_GIB)
    context = make_service_context(resource, graph)
    return [
        instance_type
        if isinstance(instance_type, UnpricedComponent)
        else make_instance_component(resource, graph, f"sagemaker:notebook:{instance_type}"),
        size_gib
        if isinstance(size_gib, UnpricedComponent)
        else make_counted_component(context, "storage", "sagemaker:notebook:storage", size_gib),
    ]


def price_endpoint(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the instances of an endpoint's variants."""
    configuration = graph.find_referenced_resource(resource, ("endpointConfigName",), ENDPOINT_CONFIGURATION)
    if configuration is None:
        return [UnpricedComponent("its configuration is not in this stack", "instance")]
    marker = read_input(configuration.inputs, "productionVariants")
    if isinstance(marker, UnreadableValue):
        return [*unpriced_if_unreadable(marker, "its variants are", "instance")]
    components: Components = []
    for variant in parse_endpoint_variants(configuration.inputs):
        components += _variant_components(resource, graph, variant)
    return components


def _variant_components(
    resource: StateResource, graph: ResourceGraph, variant: EndpointVariant
) -> Components:
    if variant.is_serverless:
        return [UnpricedComponent("a serverless variant bills by the length of its requests", variant.name)]
    instance_type = text_or_unpriced(variant.instance_type, "instance type", variant.name)
    count = number_or_unpriced(variant.instance_count, "instance count", variant.name, Decimal(1))
    if isinstance(instance_type, UnpricedComponent):
        return [instance_type]
    if isinstance(count, UnpricedComponent):
        return [count]
    size = graph.resolve_group_size(resource, _scaled_range(resource, graph, count)) or Range(
        count, count, count
    )
    item = f"sagemaker:hosting:{instance_type}"
    return [make_instance_component(resource, graph, item, size, variant.name)]


def _scaled_range(resource: StateResource, graph: ResourceGraph, count: Decimal) -> Range:
    """Return the declared instances between the bounds of the endpoint's autoscaling."""
    for target in graph.find_referring_resources(resource, ("resourceId",), SCALING_TARGET):
        low = read_input_number(target.inputs, "minCapacity")
        high = read_input_number(target.inputs, "maxCapacity")
        if isinstance(low, Decimal) and isinstance(high, Decimal) and low <= high:
            return Range.spanning(low, min(max(count, low), high), high)
    return Range.from_exact_value(count)


def price_studio_app(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a Studio application's instance; one of type ``system`` is free."""
    declared = read_input_text(resource.inputs, "resourceSpec", "instanceType")
    instance_type = text_or_unpriced(declared, "instance type", "instance")
    if isinstance(instance_type, UnpricedComponent):
        return [] if declared is None else [instance_type]
    if instance_type == "system":
        return []
    return [make_instance_component(resource, graph, f"sagemaker:studio:{instance_type}")]
