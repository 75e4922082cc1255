"""AWS Batch compute environments, and EMR clusters with the service's fee on top of their machines."""

from __future__ import annotations

from dataclasses import replace
from decimal import ROUND_CEILING

from gpufleet.catalog import find_machine
from gpufleet.cost.money import Range
from gpufleet.cost.pricing.pricers.aws.location import pricer
from gpufleet.cost.pricing.pricers.group_size import group_size_range
from gpufleet.cost.pricing.pricers.reader import Parts, Reader

EMR_ROLES = {"master": "masterInstanceGroup", "core": "coreInstanceGroup"}
FLEETS = {"master": "masterInstanceFleet", "core": "coreInstanceFleet"}
DEFAULT_VOLUME_TYPE = "gp2"
VCPUS = ("minVcpus", "desiredVcpus", "maxVcpus")
NOTE_LENGTH = 80
ON_FARGATE = "Batch on Fargate bills the vCPUs and the memory of each job, which the program does not declare"


@pricer("aws:batch/computeEnvironment:ComputeEnvironment")
def price_batch_environment(environment: Reader) -> Parts:
    """Yield a compute environment between its least and greatest number of vCPUs.

    The machines of an unmanaged one are resources of their own.
    """
    if not environment.has("computeResources"):
        return
    with environment.inside("computeResources").of("machine") as machine:
        kind = machine.text("type")
        if kind.startswith("FARGATE"):
            raise machine.of("jobs").refuse_use(ON_FARGATE)
        vcpus = group_size_range(*map(machine.find_number, VCPUS))
        if vcpus is None:
            raise machine.refuse("its vCPUs are not known until deployment")
        names = [each.text("", "instance type") for each in machine.entries("instanceTypes", "instance type")]
        counts = [count for name in names if (count := _count_machines(name, vcpus))]
        if not counts or len(counts) < len(names):
            families = ", ".join(names)[:60] or "its machine types"
            raise machine.refuse(f"Batch chooses the machines of {families} as jobs ask for them")
        low, high = min(count.low for count in counts), max(count.high for count in counts)
        size = machine.resize(Range(low, counts[0].expected, high), "its number of machines")
        first, *others = dict.fromkeys(names)
        part = machine.bought(spot=kind == "SPOT").machines(first, size)
        yield part and replace(part, note=f"or {', '.join(others)}"[:NOTE_LENGTH] if others else "")


def _count_machines(name: str, vcpus: Range) -> Range | None:
    """Return how many machines of a type have these vCPUs; None for a family, or an unknown type."""
    machine = find_machine(name, "aws")
    if machine is None:
        return Range.from_exact_value(0) if "." in name and vcpus.high == 0 else None
    amounts = (vcpus.low, vcpus.expected, vcpus.high)
    return Range(*((amount / machine.vcpus).to_integral_value(ROUND_CEILING) for amount in amounts))


@pricer("aws:emr/cluster:Cluster")
def price_emr_cluster(cluster: Reader) -> Parts:
    """Yield the machines of a cluster, their volumes, and EMR's fee for each."""
    for role, key in EMR_ROLES.items():
        if cluster.has(key):
            yield from _list_group(cluster.inside(key), role)
    for role, key in FLEETS.items():
        with cluster.of(role) as fleet:
            if fleet.has(key):
                reason = "EMR chooses the machines of an instance fleet by its target capacity"
                raise fleet.refuse(reason)


@pricer("aws:emr/instanceGroup:InstanceGroup")
def price_emr_instance_group(group: Reader) -> Parts:
    """Yield the machines of a task group."""
    return _list_group(group, "task")


def _list_group(group: Reader, role: str) -> Parts:
    """Yield the machines of a role, EMR's fee for them, and their volumes."""

    def count_machines() -> Range:
        return Range.from_exact_value(group.number("instanceCount", f"{role} instance count", 1))

    machines = group.bought(spot=group.has("bidPrice")).times(count_machines)
    with machines.of(role) as machine:
        yield machine.machines(machine.text("instanceType", f"{role} instance type"))
    with machines.of(f"{role}:emr") as fee:
        yield fee.instances(f"emr:{fee.text('instanceType', f'{role} instance type')}")
    with machines.of(f"{role}:disk:1") as volumes:
        for index, volume in enumerate(volumes.entries("ebsConfigs", "the list of its volumes"), start=1):
            with volume.of(f"{role}:disk:{index}") as disk:
                kind = disk.text("type", "volume type", DEFAULT_VOLUME_TYPE)
                copies = disk.number("volumesPerInstance", "the number of volumes", 1)
                yield disk.kept(f"ebs:{kind}", copies, disk.number("size", "volume size"))
