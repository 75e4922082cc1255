"""Containers of Azure: registries, container groups, and container apps with their environments."""

from __future__ import annotations

import re
from decimal import Decimal

from gpufleet.cost.money import ZERO, Range
from gpufleet.cost.pricing.pricers.azure.location import pricer
from gpufleet.cost.pricing.pricers.reader import Parts, Reader

SECONDS_PER_HOUR = Decimal(3600)
DEFAULT_VCPUS, DEFAULT_GIB = Decimal("0.5"), "1Gi"  # of a container app's container (its quickstart template)
# vCPUs and GiB of workload profiles (learn.microsoft.com, "Workload profiles in Azure Container Apps").
_PROFILE = re.compile(r"^([de])(4|8|16|32)$")
GIB_PER_VCPU = {"d": 4, "e": 8}
_GIB = re.compile(r"^(\d{1,4}(?:\.\d{1,4})?)Gi$")
APP_KEYS = {"vcpu": "monthly_vcpu_seconds", "gib": "monthly_gib_seconds"}


@pricer("azure-native:containerregistry:Registry", "azure:containerservice/registry:Registry")
def price_registry(registry: Reader) -> Parts:
    """Yield a registry by its tier, its replications in other regions, and storage by use."""
    with registry.of("registry") as home:
        yield home.part(f"container_registry:{home.text('sku.name or sku', 'its tier').lower()}")
    with registry.of("replications") as replications:
        tier = replications.text("sku.name or sku", "its tier").lower()
        yield replications.part(f"container_registry:{tier}", len(replications.entries("georeplications")))
    yield registry.of("storage").used("container_registry:gib", "storage_gb", stored=True)


@pricer("azure-native:containerinstance:ContainerGroup", "azure:containerservice/group:Group")
def price_container_group(group: Reader) -> Parts:
    """Yield the vCPUs and memory of a group around the clock, or for the hours of its tags or the usage file."""
    group = group.bought()
    with group.of("vcpus") as vcpus:
        yield vcpus.part(f"container_group:{_spot_prefix(vcpus)}vcpu", _sum_requests(vcpus, "cpu", "cpu"))
    with group.of("memory") as memory:
        gib = _sum_requests(memory, "memoryInGB", "memory")
        yield memory.part(f"container_group:{_spot_prefix(memory)}gib", gib)
    with group.of("windows") as windows:
        if windows.choice("osType", ("Linux", "Windows"), "Linux", "its system") == "Windows":
            yield windows.part("container_group:windows_vcpu", _sum_requests(windows, "cpu", "cpu"))
    with group.of("gpus") as gpus:
        if any(each.has("resources.requests.gpu or gpu") for each in gpus.entries("containers")):
            raise gpus.refuse("no price for GPUs of container groups")


def _spot_prefix(group: Reader) -> str:
    return (
        "spot_" if group.choice("priority", ("Regular", "Spot"), "Regular", "its priority") == "Spot" else ""
    )


def _sum_requests(group: Reader, name: str, classic_name: str) -> Decimal:
    path = f"resources.requests.{name} or {classic_name}"
    containers = group.entries("containers", "the list of its containers")
    return sum((each.number(path, "the size of a container", 0) for each in containers), ZERO)


@pricer("azure-native:app:ContainerApp", "azure:containerapp/app:App")
def price_container_app(app: Reader) -> Parts:
    """Yield the replicas that always run, up to the maximum; one that scales to zero bills by use."""
    if app.text("workloadProfileName", default="Consumption").lower() != "consumption":
        return  # it runs in a workload profile, which its environment bills
    has_amounts = any(key in app.usage.amounts for key in APP_KEYS.values())
    for name, unit in (("vcpus", "vcpu"), ("memory", "gib")):
        with app.of(name) as part:
            item, minimum = f"container_apps:{unit}_second", _read_replicas(part)
            if has_amounts or not minimum.expected:
                yield part.used(item, APP_KEYS[unit])
            else:
                yield part.part(item, minimum * (_sum_containers(part, unit) * SECONDS_PER_HOUR))
    yield app.of("requests").used("container_apps:request", "monthly_requests")


def _read_replicas(app: Reader) -> Range:
    """Return the replicas; the classic package has their bounds one level higher."""
    minimum, maximum = (
        f"template.scale.{name} or template.{name}" for name in ("minReplicas", "maxReplicas")
    )
    return app.up_to(Range.from_exact_value(app.number(minimum, "the number of its units", 0)), maximum)


def _sum_containers(app: Reader, unit: str) -> Decimal:
    containers = app.entries("template.containers", "the list of its containers")
    if unit == "vcpu":
        return sum((each.number("resources.cpu or cpu", default=DEFAULT_VCPUS) for each in containers), ZERO)
    return sum(map(_read_gib, containers), ZERO)


def _read_gib(container: Reader) -> Decimal:
    """Return the GiB of a text such as 0.5Gi."""
    match = _GIB.match(container.text("resources.memory or memory", "memory", DEFAULT_GIB))
    if not match:
        raise container.refuse("the memory of a container is not known until deployment")
    return Decimal(match[1])


@pricer("azure-native:app:ManagedEnvironment", "azure:containerapp/environment:Environment")
def price_managed_environment(environment: Reader) -> Parts:
    """Yield the machines of an environment's dedicated workload profiles, between their bounds."""
    for profile in environment.of("profile").entries("workloadProfiles"):
        with profile:
            kind = profile.text("workloadProfileType", "its type")
            if _is_consumption(profile):
                continue
            match = _PROFILE.match(kind.lower())
            if not match:
                raise profile.of(f"profile:{kind}").refuse(f"no price for workload profile {kind}")
            vcpus = Decimal(match[2])
            for unit, size in (("vcpu", vcpus), ("gib", vcpus * GIB_PER_VCPU[match[1]])):
                with profile.of(f"profile:{kind}:{unit}") as part:
                    count = part.number("minimumCount", "the number of its machines", 0)
                    counts = part.up_to(Range.from_exact_value(count), "maximumCount")
                    yield part.part(f"container_apps:dedicated_{unit}", counts * size)
    with environment.of("management") as management:
        if not all(map(_is_consumption, management.entries("workloadProfiles"))):
            yield management.part("container_apps:dedicated_management")


def _is_consumption(profile: Reader) -> bool:
    return profile.text("workloadProfileType", "its type").lower().startswith("consumption")
