"""Rules on the choices of spot capacity: other machines, allocation, restore."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet import catalog
from gpufleet.errors import InputError
from gpufleet.fleet.document import KeyPath, SpecProblem
from gpufleet.fleet.rule import POOL_RULES
from gpufleet.fleet.rules_placement import find_pool_machine
from gpufleet.fleet.rules_purchase import list_rungs_with_paths
from gpufleet.fleet.spec import Pool


@POOL_RULES.register_rule(
    "spot-machines-alike",
    reason="nodes of a pool are alike: another machine must have the same GPUs, architecture and a spot price",
    source="catalog/data/machines.csv; AWS, EC2 Auto Scaling, mixed instances groups: types that can do the work",
)
def check_spot_machines_are_alike(pool: Pool) -> Iterator[SpecProblem]:
    machine = find_pool_machine(pool)
    for path, rung in list_rungs_with_paths(pool):
        for index, name in enumerate(rung.machines):
            where = (*path, "machines", index)
            if name == pool.machine or name in rung.machines[:index]:
                yield SpecProblem(where, f"{name} is named twice", "remove it")
            elif machine is not None:
                yield from _check_other_machine(where, name, machine)


def _check_other_machine(where: KeyPath, name: str, machine: catalog.Machine) -> Iterator[SpecProblem]:
    try:
        other = catalog.get_machine(name, machine.cloud)
    except InputError as error:
        yield SpecProblem(where, error.problem, error.remedy)
        return
    if (other.accelerators, other.arch) != (machine.accelerators, machine.arch):
        text = f"{name} has other GPUs than {machine.name}"
        yield SpecProblem(where, text, "name a machine with the same GPUs, or make a second pool")
    facts = catalog.get_machine_facts(name, machine.cloud)
    if facts is not None and facts.purchases and "spot" not in facts.purchases:
        yield SpecProblem(where, f"{name} is not sold as spot", "remove it")


@POOL_RULES.register_rule(
    "spot-machines-supported",
    reason="only a group whose cloud lets it choose can have several machines, and a fabric needs equal nodes",
    source="MicrosoftDocs/azure-compute-docs, Uniform orchestration: one size; Google, instance flexibility in a MIG: "
    "no attached accelerators; AWS, cluster placement groups: one instance type advised",
)
def check_spot_machines_supported(pool: Pool) -> Iterator[SpecProblem]:
    machine, title = find_pool_machine(pool), catalog.get_cloud(pool.cloud).title
    wants_fabric = pool.fabric not in ("none", "auto") or (
        pool.fabric == "auto" and pool.count.max > 1 and bool(machine and machine.fabric)
    )
    for path, rung in list_rungs_with_paths(pool):
        if not rung.machines:
            continue
        text = None
        if pool.cloud == "azure":
            text = f"machines is set, but a scale set of {title} has one machine"
        elif pool.accelerators is not None:
            text = "machines is set, but accelerators are attached to one kind of machine"
        elif wants_fabric:
            text = "machines is set, but nodes that share a fabric must be alike"
        if text:
            yield SpecProblem((*path, "machines"), text, "remove it, or make a second pool")


@POOL_RULES.register_rule(
    "spot-allocation-aws",
    reason="only AWS lets its user choose how spot capacity is allocated",
    source="EC2 Auto Scaling API, InstancesDistribution; no such argument in gcp:compute or azure-native:compute",
)
def check_spot_allocation_supported(pool: Pool) -> Iterator[SpecProblem]:
    for path, rung in list_rungs_with_paths(pool):
        if rung.allocation is not None and pool.cloud != "aws":
            title = catalog.get_cloud(pool.cloud).title
            text = f"allocation is {rung.allocation}, but {title} chooses by itself"
            yield SpecProblem((*path, "allocation"), text, "remove it")


@POOL_RULES.register_rule(
    "spot-restore",
    reason="only Azure's scale sets of a fixed size restore evicted nodes",
    source="MicrosoftDocs/azure-compute-docs use-spot.md: try & restore is disabled in scale sets that use autoscale",
)
def check_spot_restore_supported(pool: Pool) -> Iterator[SpecProblem]:
    for path, rung in list_rungs_with_paths(pool):
        if rung.restore_minutes is None:
            continue
        title = catalog.get_cloud(pool.cloud).title
        if pool.cloud != "azure":
            text = f"restore_minutes is {rung.restore_minutes}, but {title} restores no evicted nodes by time"
            yield SpecProblem((*path, "restore_minutes"), text, "remove it")
        elif pool.count.is_elastic:
            text = "restore_minutes is set, but a scale set that scales by itself does not restore nodes"
            yield SpecProblem((*path, "restore_minutes"), text, "remove it, or give a fixed count")
