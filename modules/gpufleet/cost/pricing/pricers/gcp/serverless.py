"""Cloud Run and Cloud Functions: instances that are always on by the hour, the rest by use.

Rates and billing settings: cloud.google.com/run/pricing and /run/docs/configuring/billing-settings, read 2026-11-23.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, TypeGuard

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.usage import ResourceUsage
from gpufleet.cost.inputs.values import (
    Number,
    Text,
    is_input_true,
    read_input,
    read_input_choice,
    read_input_list,
    read_input_number,
    read_input_text,
)
from gpufleet.cost.pricing.component import Components, MachinePartContext, UnpricedComponent, UsageComponent
from gpufleet.cost.pricing.pricers.gcp.service import exact_count, service_context
from gpufleet.cost.pricing.pricers.required_input import number_or_unpriced
from gpufleet.engine import StateResource, UnreadableValue

SECONDS_PER_HOUR = Decimal(3600)
MINIMUM_SCALE = "autoscaling.knative.dev/minScale"
CPU_THROTTLING = "run.googleapis.com/cpu-throttling"
DEFAULT_VCPUS, DEFAULT_MEMORY = "1", "512Mi"  # of a container (the provider's documentation)
DEFAULT_FUNCTION_MEMORY = "256M"
# vCPUs of a function by its GiB of memory (cloud.google.com/functions/docs/configuring/memory, read 2026-11-23).
FUNCTION_VCPUS = (
    (0.125, "0.083"),
    (0.25, "0.167"),
    (0.5, "0.333"),
    (1, "0.583"),
    (2, "1"),
    (8, "2"),
    (16, "4"),
)
LARGEST_FUNCTION_VCPUS = Decimal(8)
# The GHz that a function of the first generation has by its GiB (cloud.google.com/functions/pricing-1stgen).
FUNCTION_GHZ = ((0.125, "0.2"), (0.25, "0.4"), (0.5, "0.8"), (1, "1.4"), (2, "2.4"))
FASTEST_GHZ = Decimal("4.8")
GIB_BY_SUFFIX = {
    "": Decimal(1) / 1024**3, "K": Decimal(1000) / 1024**3, "Ki": Decimal(1) / 1024**2,
    "M": Decimal(1000**2) / 1024**3, "Mi": Decimal(1) / 1024, "G": Decimal(1000**3) / 1024**3, "Gi": Decimal(1),
}  # fmt: skip
_AMOUNT = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([KMG]i?|m)?\Z")


@dataclass(frozen=True)
class RunInputs:
    """The inputs of a service, a job or a pool: the size of an instance, and how many always run.

    ``vcpus`` and ``memory_gib`` are None if they cannot be read. ``is_always_on``: an instance bills for as long as it
    exists, not only for its requests.
    """

    vcpus: Decimal | None
    memory_gib: Decimal | None
    minimum: Number
    is_always_on: bool
    accelerator: Text = None
    task_count: Number = None


def parse_run_service_inputs(inputs: Any) -> RunInputs:
    """Parse a Cloud Run service."""
    template = read_input(inputs, "template")
    containers = read_input_list(template, "containers")
    resources = [each for each in (read_input(item, "resources") for item in containers) if each is not None]
    minimum = read_input_number(inputs, "scaling", "manualInstanceCount")
    for path in ((inputs, "scaling"), (template, "scaling")):
        minimum = read_input_number(*path, "minInstanceCount") if minimum in (None, Decimal(0)) else minimum
    vcpus, memory_gib = _parse_size(containers)
    return RunInputs(
        vcpus,
        memory_gib,
        minimum,
        is_always_on=bool(resources) and not any(is_input_true(each, "cpuIdle") for each in resources),
        accelerator=read_input_text(template, "nodeSelector", "accelerator"),
    )


def parse_run_job_inputs(inputs: Any) -> RunInputs:
    """Parse a Cloud Run job, whose tasks bill while they run."""
    vcpus, memory_gib = _parse_size(read_input_list(inputs, "template", "template", "containers"))
    count = read_input_number(inputs, "template", "taskCount")
    return RunInputs(vcpus, memory_gib, Decimal(0), is_always_on=True, task_count=count)


def parse_knative_service_inputs(inputs: Any) -> RunInputs:
    """Parse a Cloud Run service of the first version of the API, with its settings in annotations."""
    annotations = read_input(inputs, "template", "metadata", "annotations")
    vcpus, memory_gib = _parse_size(read_input_list(inputs, "template", "spec", "containers"))
    return RunInputs(
        vcpus,
        memory_gib,
        read_input_number(annotations, MINIMUM_SCALE),
        is_always_on=read_input_choice(annotations, ("true", "false"), CPU_THROTTLING) == "false",
    )


def parse_worker_pool_inputs(inputs: Any) -> RunInputs:
    """Parse a pool of Cloud Run workers, which always run."""
    vcpus, memory_gib = _parse_size(read_input_list(inputs, "template", "containers"))
    minimum = read_input_number(inputs, "scaling", "manualInstanceCount")
    if minimum is None:
        minimum = read_input_number(inputs, "scaling", "minInstanceCount")
    return RunInputs(vcpus, memory_gib, Decimal(1) if minimum is None else minimum, is_always_on=True)


def parse_function_inputs(inputs: Any) -> RunInputs:
    """Parse a function of the second generation, which is a Cloud Run service."""
    memory = read_input(inputs, "serviceConfig", "availableMemory")
    memory_gib = _parse_gib(DEFAULT_FUNCTION_MEMORY if memory is None else memory)
    declared = read_input(inputs, "serviceConfig", "availableCpu")
    vcpus = _parse_vcpus(declared) if declared is not None else _default_function_vcpus(memory_gib)
    minimum = read_input_number(inputs, "serviceConfig", "minInstanceCount")
    return RunInputs(vcpus, memory_gib, minimum, is_always_on=False)


def price_run_service(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the instances that a service keeps running, and what its requests use."""
    return _service_components(resource, graph, parse_run_service_inputs(resource.inputs))


def price_knative_service(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the same of a service of the first version of the API."""
    return _service_components(resource, graph, parse_knative_service_inputs(resource.inputs))


def price_function(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the instances that a function keeps warm, and what its calls use."""
    return _service_components(resource, graph, parse_function_inputs(resource.inputs))


def price_first_generation_function(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return what the calls of a function of the first generation use; instances kept warm have no price here."""
    context, usage = service_context(resource, graph), graph.usage_of_resource(resource)
    memory_mib = read_input_number(resource.inputs, "availableMemoryMb")
    memory_gib = Decimal(256 if memory_mib is None else memory_mib) / 1024 if _is_known(memory_mib) else None
    calls = usage.amounts.get("monthly_function_invocations")
    duration_ms = usage.amounts.get("request_duration_ms")
    seconds = None if calls is None or duration_ms is None else calls * duration_ms / 1000
    key = "request_duration_ms" if calls is not None else "monthly_function_invocations"
    ghz = None if memory_gib is None else _function_ghz(memory_gib)
    components: Components = [
        context.make_usage_component(
            "calls", "cloud_functions:invocation", "monthly_function_invocations", usage
        )
    ]
    for component, item, size in (
        ("cpu", "cloud_functions:ghz_second", ghz),
        ("memory", "cloud_functions:gib_second", memory_gib),
    ):
        amount = None if seconds is None or size is None else seconds * size
        part = UsageComponent(component, item, key, context.cloud, context.region, amount, pool=context.pool)
        components.append(part)
    if read_input_number(resource.inputs, "minInstances") not in (None, 0):
        components.append(UnpricedComponent("no price for instances that it keeps warm", "minimum"))
    return components


def price_worker_pool(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the workers of a pool, which always run."""
    pool = parse_worker_pool_inputs(resource.inputs)
    return _running_components(pool, service_context(resource, graph), "worker")


def price_run_job(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return what the executions of a job use."""
    job = parse_run_job_inputs(resource.inputs)
    usage, context = graph.usage_of_resource(resource), service_context(resource, graph)
    tasks = number_or_unpriced(job.task_count, "its number of tasks", "vcpus", Decimal(1))
    if isinstance(tasks, UnpricedComponent):
        return [tasks]
    executions = usage.amounts.get("monthly_job_executions")
    minutes = usage.amounts.get("average_task_execution_mins")
    seconds = None if executions is None or minutes is None else executions * tasks * minutes * 60
    key = "average_task_execution_mins" if executions is not None else "monthly_job_executions"
    return _seconds_components(job, context, "always", seconds, key)


def _service_components(resource: StateResource, graph: ResourceGraph, service: RunInputs) -> Components:
    context, usage = service_context(resource, graph), graph.usage_of_resource(resource)
    rate = "always" if service.is_always_on else "idle"
    running = _running_components(service, context, rate) if service.minimum not in (None, 0) else []
    if service.is_always_on:
        hours = usage.amounts.get("instance_hrs")
        seconds = None if hours is None else hours * SECONDS_PER_HOUR
        return [*running, *_seconds_components(service, context, "always", seconds, "instance_hrs")]
    seconds, key = _request_seconds(usage)
    requests = context.make_usage_component("requests", "cloud_run:requests", "monthly_requests", usage)
    return [*running, requests, *_seconds_components(service, context, "request", seconds, key)]


def _running_components(service: RunInputs, context: MachinePartContext, rate: str) -> Components:
    """Return instances that run all month, at a rate of a second."""
    minimum = number_or_unpriced(service.minimum, "its number of instances", "vcpus:minimum")
    if isinstance(minimum, UnpricedComponent):
        return [minimum]
    if service.vcpus is None or service.memory_gib is None:
        return [UnpricedComponent("the size of its containers is not known", "vcpus:minimum")]
    running = replace(context, count=exact_count(minimum))
    components: Components = [
        running.make_part_component(
            "vcpus:minimum", f"cloud_run:{rate}:vcpu_second", service.vcpus * SECONDS_PER_HOUR
        ),
        running.make_part_component(
            "memory:minimum", f"cloud_run:{rate}:gib_second", service.memory_gib * SECONDS_PER_HOUR
        ),
    ]
    if isinstance(service.accelerator, str):
        item = f"cloud_run:{service.accelerator}:second"
        components.append(running.make_part_component("accelerator:minimum", item, SECONDS_PER_HOUR))
    elif isinstance(service.accelerator, UnreadableValue):
        components.append(UnpricedComponent("its accelerator is not known", "accelerator:minimum"))
    return components


def _seconds_components(
    service: RunInputs, context: MachinePartContext, rate: str, seconds: Decimal | None, usage_key: str
) -> Components:
    """Return the seconds that instances are used in a month, by vCPUs and memory."""
    return [
        UsageComponent(
            component,
            f"cloud_run:{rate}:{unit}_second",
            usage_key,
            context.cloud,
            context.region,
            None if seconds is None or size is None else seconds * size,
            pool=context.pool,
        )
        for component, unit, size in (
            ("vcpus", "vcpu", service.vcpus),
            ("memory", "gib", service.memory_gib),
        )
    ]


def _request_seconds(usage: ResourceUsage) -> tuple[Decimal | None, str]:
    """Return the seconds that a month's requests take, one after the other on an instance unless the file says so."""
    requests = usage.amounts.get("monthly_requests")
    duration_ms = usage.amounts.get("average_request_duration_ms")
    if requests is None or duration_ms is None:
        key = "average_request_duration_ms" if requests is not None else "monthly_requests"
        return None, key
    concurrency = usage.amounts.get("concurrent_requests_per_instance") or Decimal(1)
    return requests * duration_ms / 1000 / concurrency, "average_request_duration_ms"


def _parse_size(containers: list[Any]) -> tuple[Decimal | None, Decimal | None]:
    """Return vCPUs and GiB of an instance: the sum of its containers, one with defaults if there are none."""
    vcpus, memory_gib = Decimal(0), Decimal(0)
    for container in containers or [{}]:
        cpu = read_input(container, "resources", "limits", "cpu")
        memory = read_input(container, "resources", "limits", "memory")
        parsed_vcpus = _parse_vcpus(DEFAULT_VCPUS if cpu is None else cpu)
        parsed_gib = _parse_gib(DEFAULT_MEMORY if memory is None else memory)
        if parsed_vcpus is None or parsed_gib is None:
            return None, None
        vcpus, memory_gib = vcpus + parsed_vcpus, memory_gib + parsed_gib
    return vcpus, memory_gib


def _parse_vcpus(text: Any) -> Decimal | None:
    match = _AMOUNT.match(str(text))
    if match is None or match[2] not in (None, "m"):
        return None
    return Decimal(match[1]) / (1000 if match[2] else 1)


def _parse_gib(text: Any) -> Decimal | None:
    match = _AMOUNT.match(str(text))
    if match is None or match[2] == "m":
        return None
    return Decimal(match[1]) * GIB_BY_SUFFIX[match[2] or ""]


def _is_known(number: Number) -> TypeGuard[Decimal | None]:
    return not isinstance(number, UnreadableValue)


def _function_ghz(memory_gib: Decimal) -> Decimal:
    """Return the GHz that a function of the first generation gets with its memory."""
    return next((Decimal(ghz) for limit, ghz in FUNCTION_GHZ if memory_gib <= Decimal(limit)), FASTEST_GHZ)


def _default_function_vcpus(memory_gib: Decimal | None) -> Decimal | None:
    """Return the vCPUs that a function gets with its memory."""
    if memory_gib is None:
        return None
    return next(
        (Decimal(vcpus) for limit, vcpus in FUNCTION_VCPUS if memory_gib <= Decimal(limit)),
        LARGEST_FUNCTION_VCPUS,
    )
