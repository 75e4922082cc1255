"""SageMaker: notebooks, endpoints and Studio applications, which bill by the instance and hour."""

from __future__ import annotations

from gpufleet.cost.pricing.pricers.aws.location import pricer
from gpufleet.cost.pricing.pricers.aws.scaling import find_scaled_range
from gpufleet.cost.pricing.pricers.reader import Parts, Reader

ENDPOINT_CONFIGURATION = "aws:sagemaker/endpointConfiguration:EndpointConfiguration"
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
            size = instance.resize(find_scaled_range(instance, declared), "instance count")
            yield instance.instances(item, size)


@pricer("aws:sagemaker/app:App")
def price_studio_app(app: Reader) -> Parts:
    """Yield a Studio application's instance; one of type ``system`` is free."""
    with app.of("instance") as instance:
        kind = instance.text("resourceSpec.instanceType", "instance type", "system")
        if kind != "system":
            yield instance.instances(f"sagemaker:studio:{kind}")
