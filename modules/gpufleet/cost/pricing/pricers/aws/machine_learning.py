"""SageMaker: notebooks, endpoints and Studio applications, which bill by the instance and hour."""

from __future__ import annotations

import re
from decimal import Decimal

from gpufleet.cost.inputs.values import text_if_known
from gpufleet.cost.money import Range
from gpufleet.cost.pricing.pricers.aws.location import pricer
from gpufleet.cost.pricing.pricers.aws.scaling import SCALING_TARGET, make_scaled_range
from gpufleet.cost.pricing.pricers.reader import Parts, Reader

ENDPOINT_CONFIGURATION = "aws:sagemaker/endpointConfiguration:EndpointConfiguration"
VARIANT_ID = re.compile(r"endpoint/([^/]{1,100})/variant/([^/]{1,100})")  # of an autoscaling target
DEFAULT_NOTEBOOK_GIB = 5  # the provider's documentation of volumeSize


@pricer("aws:sagemaker/notebookInstance:NotebookInstance")
def price_notebook(notebook: Reader) -> Parts:
    """Yield a notebook's instance for the hours that it runs, and its volume."""
    with notebook.of("instance") as instance:
        yield instance.instances(f"sagemaker:notebook:{instance.text('instanceType', 'instance type')}")
    with notebook.of("storage") as storage:
        size = storage.number("volumeSize", "volume size", DEFAULT_NOTEBOOK_GIB)
        yield storage.kept("sagemaker:notebook:storage", size)


@pricer("aws:sagemaker/endpoint:Endpoint")
def price_endpoint(endpoint: Reader) -> Parts:
    """Yield the instances of an endpoint's variants, shadows included."""
    found = endpoint.find_resource("endpointConfigName", ENDPOINT_CONFIGURATION)
    if found is None:
        raise endpoint.of("instance").refuse("its configuration is not in this stack")
    configuration = endpoint.reading(found).of("instance")
    variants = configuration.entries("productionVariants", "the list of its variants")
    variants += configuration.entries("shadowProductionVariants", "the list of its shadow variants")
    for index, variant in enumerate(variants):
        with variant.of(f"instance:{index}" if index else "instance") as instance:
            if instance.has("serverlessConfig"):
                raise instance.refuse_use("a serverless variant bills by the length of its requests")
            item = f"sagemaker:hosting:{instance.text('instanceType', 'instance type')}"
            declared = instance.number("initialInstanceCount", "instance count", 1)
            size = instance.resize(_find_variant_range(endpoint, instance, declared), "instance count")
            yield instance.instances(item, size)


def _find_variant_range(endpoint: Reader, variant: Reader, declared: Decimal) -> Range | None:
    """Return the instances of a variant: between the bounds of its own scaling, or of an autoscaling target."""
    scaling = variant.inside("managedInstanceScaling")
    if scaling.find_text("status") == "ENABLED":
        bounds = scaling.find_number("minInstanceCount"), scaling.find_number("maxInstanceCount")
        return make_scaled_range(*bounds, declared)
    name = text_if_known(variant.find_text("variantName")) or ""
    endpoints = {endpoint.resource.name, text_if_known(endpoint.find_text("name")) or endpoint.resource.name}
    for target in endpoint.graph.resources_of_types(SCALING_TARGET):
        reader = endpoint.reading(target)
        match = VARIANT_ID.fullmatch(text_if_known(reader.find_text("resourceId")) or "")
        is_hidden = match is None and endpoint.resource.urn in target.property_dependencies.get(
            "resourceId", ()
        )
        if is_hidden or (match and match[1] in endpoints and match[2] == name):
            return make_scaled_range(
                reader.find_number("minCapacity"), reader.find_number("maxCapacity"), declared
            )
    return Range.from_exact_value(declared)


@pricer("aws:sagemaker/app:App")
def price_studio_app(app: Reader) -> Parts:
    """Yield a Studio application's instance; one of type ``system`` is free."""
    with app.of("instance") as instance:
        kind = instance.text("resourceSpec.instanceType", "instance type", "system")
        if kind != "system":
            yield instance.instances(f"sagemaker:studio:{kind}")
