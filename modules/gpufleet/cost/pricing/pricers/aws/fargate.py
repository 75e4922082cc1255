"""ECS services on Fargate: vCPUs, memory and disk of the tasks. Those on EC2 bill through their instances."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal

from gpufleet.boundary import decode_json
from gpufleet.cost.money import ZERO, Range
from gpufleet.cost.pricing.pricers.aws.location import pricer
from gpufleet.cost.pricing.pricers.aws.scaling import find_scaled_range
from gpufleet.cost.pricing.pricers.part_names import ADDRESS
from gpufleet.cost.pricing.pricers.reader import Parts, Reader
from gpufleet.engine import UnreadableValue
from gpufleet.errors import InputError

CLUSTER = "aws:ecs/cluster:Cluster"
TASK_DEFINITION = "aws:ecs/taskDefinition:TaskDefinition"
CLUSTER_PROVIDERS = "aws:ecs/clusterCapacityProviders:ClusterCapacityProviders"
FARGATE, FARGATE_SPOT = "FARGATE", "FARGATE_SPOT"
PROVIDER, STRATEGY = "capacityProvider", "what its tasks run on"
ARCHITECTURES = ("X86_64", "ARM64")
INCLUDED_DISK_GIB = 20
MAX_AMOUNT_LENGTH = 20
UNITS_PER_SIZE = Decimal(1024)  # CPU units of a vCPU, MiB of a GiB
SIZES = (("vcpu", "cpu"), ("memory", "memory"))
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*(vcpu|gb)?", re.IGNORECASE)


@pricer("aws:ecs/service:Service")
def price_ecs_service(service: Reader) -> Parts:
    """Yield the tasks of a service on Fargate; nothing if they run on instances, which bill themselves."""
    service = replace(service, hours=service.terms.hours)
    definition = service.find_resource("taskDefinition", TASK_DEFINITION)
    task = service.reading(definition) if definition else replace(service, inputs={})
    strategy = _find_strategy(service.of("task"), task.of("task"))
    names = [entry.text(PROVIDER, STRATEGY) for entry in strategy]
    providers = [name for name in (FARGATE, FARGATE_SPOT) if name in names]
    if providers and definition is None:
        raise service.of("task").refuse("its task definition is not in this stack")
    for provider in providers:
        yield from _list_tasks(service, task, strategy, provider)


def _find_strategy(service: Reader, task: Reader) -> list[Reader]:
    """Return the providers of the tasks: the service's choice, else its cluster's default, else instances."""
    if strategy := service.entries("capacityProviderStrategies", STRATEGY):
        return strategy
    launch_type = service.text("launchType", STRATEGY, "")
    if launch_type:
        return [replace(service, inputs={PROVIDER: launch_type, "weight": 1})]
    cluster = service.find_resource("cluster", CLUSTER)
    defaults = service.reading(cluster).find_referrers("clusterName", CLUSTER_PROVIDERS) if cluster else []
    if defaults:
        return service.reading(defaults[0]).entries("defaultCapacityProviderStrategies", STRATEGY)
    compatible = [each.text("", STRATEGY) for each in task.entries("requiresCompatibilities", STRATEGY)]
    return [replace(service, inputs={PROVIDER: FARGATE, "weight": 1})] if compatible == [FARGATE] else []


def _read_share(entry: Reader) -> tuple[str, Decimal, Decimal]:
    """Return a provider with its base and its weight."""
    base, weight = (entry.number(key, f"the {key} of a provider", 0) for key in ("base", "weight"))
    return entry.text(PROVIDER, STRATEGY), base, weight


def _find_task_count(service: Reader) -> Range:
    """Return the declared tasks between the bounds of the service's autoscaling."""
    desired = service.find_number("desiredCount")
    declared = None if isinstance(desired, UnreadableValue) else desired or ZERO
    return service.resize(find_scaled_range(service, declared), "the number of tasks")


def split_tasks(count: Range, providers: tuple[tuple[str, Decimal, Decimal], ...]) -> dict[str, Range]:
    """Return how many tasks each provider runs, of its base and weight: its base first, the rest by weight."""
    total_weight = sum((weight for _, _, weight in providers), ZERO)
    shares: dict[str, list[Decimal]] = {name: [] for name, _, _ in providers}
    for tasks in (count.low, count.expected, count.high):
        rest = tasks
        bases = {}
        for name, base, _ in providers:
            bases[name] = min(base, rest)
            rest -= bases[name]
        for name, _, weight in providers:
            by_weight = rest * weight / total_weight if total_weight else ZERO
            shares[name].append(bases[name] + by_weight)
    return {name: Range(*values) for name, values in shares.items()}


def _list_tasks(service: Reader, task: Reader, strategy: list[Reader], provider: str) -> Parts:
    """Yield what the tasks of one provider bill."""

    def count_tasks() -> Range:
        return split_tasks(_find_task_count(service), tuple(map(_read_share, strategy)))[provider]

    prefix = "spot_" if provider == FARGATE_SPOT else ""
    task = task.times(count_tasks).prefixed(prefix)
    service = service.times(count_tasks).prefixed(prefix)
    for unit, key in SIZES:
        with task.of(unit) as size:
            part = size.part(
                f"fargate:{_find_platform(size)}:{unit}",
                size=_read_size(size, key, f"the {unit} of its tasks"),
            )
            yield replace(part, terms=replace(part.terms, purchase="spot")) if part and prefix else part
    with task.of("disk") as disk:
        gib = disk.number("ephemeralStorage.sizeInGib", "the disk of its tasks", INCLUDED_DISK_GIB)
        yield disk.part("fargate:ephemeral_storage", size=max(gib - INCLUDED_DISK_GIB, ZERO))
    with service.of(ADDRESS) as address:
        if address.flag("networkConfiguration.assignPublicIp", "whether it has public addresses"):
            yield address.part(ADDRESS)


def _find_platform(task: Reader) -> str:
    if task.text("runtimePlatform.operatingSystemFamily", "operating system", "LINUX").startswith("WINDOWS"):
        return "windows"
    architecture = task.choice("runtimePlatform.cpuArchitecture", ARCHITECTURES, "X86_64", "CPU architecture")
    return "linux_arm" if architecture == "ARM64" else "linux_x86"


def _read_size(task: Reader, key: str, name: str) -> Decimal:
    """Return a size in units of 1/1024, or with its unit, as ``"0.5 vCPU"`` and ``"1 GB"``; else of its containers."""
    text = task.text(key, name, "").strip()
    if not text:
        return _sum_containers(task, key, name)
    match = _AMOUNT.fullmatch(text) if len(text) <= MAX_AMOUNT_LENGTH else None
    size = task.known(match, name)
    return Decimal(size[1]) if size[2] else Decimal(size[1]) / UNITS_PER_SIZE


def _sum_containers(task: Reader, key: str, name: str) -> Decimal:
    """Return the sum of the containers' sizes, each of which must have one."""
    try:
        definitions = decode_json(task.text("containerDefinitions", name), "containerDefinitions")
    except InputError:
        raise task.refuse(f"{name} is not set") from None
    containers = replace(task, inputs={"containers": definitions}).entries("containers", name)
    if not containers:
        raise task.refuse(f"{name} is not set")
    return sum((each.number(key, name) for each in containers), ZERO) / UNITS_PER_SIZE
