"""Cloud Run and Cloud Functions: instances that are always on by the hour, the rest by use.

Prices are of seconds of vCPUs and of memory, at the rate ``request`` of an instance that serves one, ``idle`` of one
that is kept warm, ``always`` of one that bills for as long as it exists, and ``worker`` of a pool. Rates and billing
settings: cloud.google.com/run/pricing and /run/docs/configuring/billing-settings, read 2026-11-23.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal

from gpufleet.cost.money import ZERO
from gpufleet.cost.pricing.pricers.gcp.location import pricer
from gpufleet.cost.pricing.pricers.reader import Parts, Reader

SECONDS_PER_HOUR = Decimal(3600)
ANNOTATIONS = "template.metadata.annotations"
MINIMUM_SCALE = f'{ANNOTATIONS}["autoscaling.knative.dev/minScale"]'
CPU_THROTTLING = f'{ANNOTATIONS}["run.googleapis.com/cpu-throttling"]'
MINIMA = ("scaling.manualInstanceCount", "scaling.minInstanceCount", "template.scaling.minInstanceCount")
DEFAULT_VCPUS, DEFAULT_MEMORY = "1", "512Mi"  # of a container (the provider's documentation)
DEFAULT_FUNCTION_MEMORY, DEFAULT_FUNCTION_MIB = "256M", 256
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
    "": Decimal(1) / 1024**3,
    "K": Decimal(1000) / 1024**3,
    "Ki": Decimal(1) / 1024**2,
    "M": Decimal(1000**2) / 1024**3,
    "Mi": Decimal(1) / 1024,
    "G": Decimal(1000**3) / 1024**3,
    "Gi": Decimal(1),
}
_AMOUNT = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([KMG]i?|m)?\Z")
UNITS = {"vcpus": "vcpu", "memory": "gib"}


@dataclass(frozen=True)
class Service:
    """How a kind of service says the vCPUs or GiB of an instance, how many always run, and at which rate."""

    size: Callable[[Reader, str], Decimal]
    minimum: Callable[[Reader], Decimal]
    is_always_on: Callable[[Reader], bool]
    accelerator: str = ""


@pricer("gcp:cloudrunv2/service:Service")
def price_run_service(service: Reader) -> Parts:
    """Yield the instances that a service keeps running, and what its requests use."""
    kind = Service(
        _size_of("template.containers"), _find_minimum, _has_idle_cpus, "template.nodeSelector.accelerator"
    )
    return _list_service(service, kind)


@pricer("gcp:cloudrun/service:Service")
def price_knative_service(service: Reader) -> Parts:
    """Yield the same of a service of the first version of the API, with its settings in annotations."""
    kind = Service(
        _size_of("template.spec.containers"),
        lambda each: each.number(MINIMUM_SCALE, "its number of instances", 0),
        lambda each: not each.flag(CPU_THROTTLING, "its CPU throttling", default=True),
    )
    return _list_service(service, kind)


@pricer("gcp:cloudfunctionsv2/function:Function")
def price_function(function: Reader) -> Parts:
    """Yield the instances that a function keeps warm, and what its calls use: it is a Cloud Run service."""
    kind = Service(
        _size_function,
        lambda each: each.number("serviceConfig.minInstanceCount", "its number of instances", 0),
        lambda _: False,
    )
    return _list_service(function, kind)


@pricer("gcp:cloudfunctions/function:Function")
def price_first_generation_function(function: Reader) -> Parts:
    """Yield what the calls of a function of the first generation use; instances kept warm have no price here."""
    calls, duration_ms = (
        function.usage.amounts.get(key) for key in ("monthly_function_invocations", "request_duration_ms")
    )
    seconds = None if calls is None or duration_ms is None else calls * duration_ms / 1000
    key = "monthly_function_invocations" if calls is None else "request_duration_ms"
    yield function.of("calls").used("cloud_functions:invocation", "monthly_function_invocations")
    for name, unit in (("cpu", "ghz"), ("memory", "gib")):
        with function.of(name) as part:
            gib = part.number("availableMemoryMb", "its memory", DEFAULT_FUNCTION_MIB) / 1024
            size = _find_step(FUNCTION_GHZ, gib, FASTEST_GHZ) if unit == "ghz" else gib
            yield part.derived(
                f"cloud_functions:{unit}_second", key, None if seconds is None else seconds * size
            )
    with function.of("minimum") as minimum:
        if minimum.number("minInstances", "its number of instances", 0):
            raise minimum.refuse("no price for instances that it keeps warm")


@pricer("gcp:cloudrunv2/workerPool:WorkerPool")
def price_worker_pool(pool: Reader) -> Parts:
    """Yield the workers of a pool, which always run."""

    def find_minimum(each: Reader) -> Decimal:
        least = each.number("scaling.minInstanceCount", "its number of instances", 1)
        return each.number("scaling.manualInstanceCount", "its number of instances", least)

    kind = Service(_size_of("template.containers"), find_minimum, lambda _: True)
    return _list_running(pool, kind, "worker")


@pricer("gcp:cloudrunv2/job:Job")
def price_run_job(job: Reader) -> Parts:
    """Yield what the executions of a job use."""
    executions, minutes = (
        job.usage.amounts.get(key) for key in ("monthly_job_executions", "average_task_execution_mins")
    )
    key = "monthly_job_executions" if executions is None else "average_task_execution_mins"
    size = _size_of("template.template.containers")
    for name, unit in UNITS.items():
        with job.of(name) as part:
            tasks = part.number("template.taskCount", "its number of tasks", 1)
            seconds = None if executions is None or minutes is None else executions * tasks * minutes * 60
            amount = None if seconds is None else seconds * size(part, unit)
            yield part.derived(f"cloud_run:always:{unit}_second", key, amount)


def _list_service(service: Reader, kind: Service) -> Parts:
    yield from _list_running(service, kind, "")
    for name, unit in UNITS.items():
        with service.of(name) as part:
            is_always_on = kind.is_always_on(part)
            seconds, key = _find_instance_seconds(part) if is_always_on else _find_request_seconds(part)
            amount = None if seconds is None else seconds * kind.size(part, unit)
            yield part.derived(
                f"cloud_run:{'always' if is_always_on else 'request'}:{unit}_second", key, amount
            )
    with service.of("requests") as requests:
        if not kind.is_always_on(requests):
            yield requests.used("cloud_run:requests", "monthly_requests")


def _list_running(service: Reader, kind: Service, rate: str) -> Parts:
    """Yield the instances that always run, at a rate of a second."""
    for name, unit in UNITS.items():
        with service.of(f"{name}:minimum") as part:
            if minimum := kind.minimum(part):
                known_rate = rate or ("always" if kind.is_always_on(part) else "idle")
                size = kind.size(part, unit) * SECONDS_PER_HOUR
                yield part.part(f"cloud_run:{known_rate}:{unit}_second", minimum, size)
    with service.of("accelerator:minimum") as part:
        if kind.accelerator and part.has(kind.accelerator) and (minimum := kind.minimum(part)):
            accelerator = part.text(kind.accelerator, "its accelerator")
            yield part.part(f"cloud_run:{accelerator}:second", minimum, SECONDS_PER_HOUR)


def _find_instance_seconds(service: Reader) -> tuple[Decimal | None, str]:
    hours = service.usage.amounts.get("instance_hrs")
    return None if hours is None else hours * SECONDS_PER_HOUR, "instance_hrs"


def _find_request_seconds(service: Reader) -> tuple[Decimal | None, str]:
    """Return the seconds that a month's requests take, one after the other on an instance unless the file says so."""
    amounts = service.usage.amounts
    requests, duration_ms = amounts.get("monthly_requests"), amounts.get("average_request_duration_ms")
    if requests is None or duration_ms is None:
        return None, "monthly_requests" if requests is None else "average_request_duration_ms"
    concurrency = amounts.get("concurrent_requests_per_instance") or Decimal(1)
    return requests * duration_ms / 1000 / concurrency, "average_request_duration_ms"


def _find_minimum(service: Reader) -> Decimal:
    numbers = (service.number(path, "its number of instances", 0) for path in MINIMA)
    return next((number for number in numbers if number), ZERO)


def _has_idle_cpus(service: Reader) -> bool:
    """Return whether the CPUs of a service bill while it serves no request."""
    containers = [each for each in service.entries("template.containers") if each.has("resources")]
    return bool(containers) and not any(each.flag("resources.cpuIdle") for each in containers)


def _size_of(path: str) -> Callable[[Reader, str], Decimal]:
    """Return what sums the vCPUs or GiB of the containers of an instance; one with defaults if there are none."""

    def size(service: Reader, unit: str) -> Decimal:
        containers = service.entries(path, "the list of its containers") or [replace(service, inputs={})]
        if unit == "vcpu":
            texts = [each.text("resources.limits.cpu", "a container", DEFAULT_VCPUS) for each in containers]
            return sum((_parse_vcpus(service, text) for text in texts), ZERO)
        texts = [each.text("resources.limits.memory", "a container", DEFAULT_MEMORY) for each in containers]
        return sum((_parse_gib(service, text) for text in texts), ZERO)

    return size


def _size_function(function: Reader, unit: str) -> Decimal:
    memory = function.text("serviceConfig.availableMemory", "its memory", DEFAULT_FUNCTION_MEMORY)
    if unit == "gib":
        return _parse_gib(function, memory)
    if function.has("serviceConfig.availableCpu"):
        return _parse_vcpus(function, function.text("serviceConfig.availableCpu", "its vCPUs"))
    return _find_step(FUNCTION_VCPUS, _parse_gib(function, memory), LARGEST_FUNCTION_VCPUS)


def _parse_vcpus(service: Reader, text: str) -> Decimal:
    match = _AMOUNT.match(text)
    if match is None or match[2] not in (None, "m"):
        raise service.refuse("the size of its containers is not known")
    return Decimal(match[1]) / (1000 if match[2] else 1)


def _parse_gib(service: Reader, text: str) -> Decimal:
    match = _AMOUNT.match(text)
    if match is None or match[2] == "m":
        raise service.refuse("the size of its containers is not known")
    return Decimal(match[1]) * GIB_BY_SUFFIX[match[2] or ""]


def _find_step(steps: tuple[tuple[float, str], ...], gib: Decimal, largest: Decimal) -> Decimal:
    """Return what a function gets with its memory."""
    return next((Decimal(amount) for limit, amount in steps if gib <= Decimal(limit)), largest)
