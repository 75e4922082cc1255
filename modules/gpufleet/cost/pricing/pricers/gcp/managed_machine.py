"""Managed services that run Compute Engine machines: Workbench, Dataproc, Vertex AI, VPC connectors, workstations.

Their machines have the prices of Compute Engine, and some services a fee on top. Vertex AI's prediction has prices of
its own, the items of ``vertex:prediction``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import (
    MARKER_REASONS,
    Number,
    Text,
    number_if_known,
    read_input,
    read_input_choice,
    read_input_list,
    read_input_number,
    read_input_text,
)
from gpufleet.cost.money import HOURS_PER_MONTH, Range
from gpufleet.cost.pricing.component import Components, CostComponent, MachinePartContext, UnpricedComponent
from gpufleet.cost.pricing.pricers.gcp.disk import local_ssd_components
from gpufleet.cost.pricing.pricers.gcp.location import find_region
from gpufleet.cost.pricing.pricers.gcp.machine_inputs import (
    address_component,
    machine_components,
    parse_machine_inputs,
)
from gpufleet.cost.pricing.pricers.gcp.service import (
    GLOBAL,
    exact_count,
    service_context,
)
from gpufleet.cost.pricing.pricers.group_size import group_size_range
from gpufleet.cost.pricing.pricers.part_names import ADDRESS
from gpufleet.cost.pricing.pricers.required_input import (
    number_or_unpriced,
    text_or_unpriced,
    unpriced_if_unreadable,
)
from gpufleet.engine import StateResource, UnreadableValue

# What the services make where a program has no setting (the provider's documentation of these inputs).
WORKBENCH_TYPE, WORKBENCH_DISK_GIB, WORKBENCH_DISK = "e2-standard-4", Decimal(150), "pd-balanced"
CONNECTOR_TYPE, CONNECTOR_MINIMUM, CONNECTOR_MAXIMUM = "e2-micro", Decimal(2), Decimal(3)
WORKSTATION_TYPE = "e2-standard-4"
# Where none is given (pulumi-gcp 10.2, dataproc.Cluster, `machine_type`: "currently `n1-standard-4`").
DATAPROC_MACHINE = "n1-standard-4"
PREEMPTIBILITIES = ("PREEMPTIBILITY_UNSPECIFIED", "NON_PREEMPTIBLE", "PREEMPTIBLE", "SPOT")
DATAPROC_WORKERS, DATAPROC_DISK_GIB = Decimal(2), Decimal(500)
STOPPED = "STOPPED"
_VCPUS = re.compile(r"-(\d{1,4})(?:-\d{1,8}(?:-ext)?)?\Z")


@dataclass(frozen=True)
class MachinePoolInputs:
    """Machines of one kind inside a service, as Compute Engine would have them."""

    component: str
    machine: dict[str, Any]
    count: Range | None
    disk_gib: Number = None
    disk_type: Text = None
    is_spot: bool = False
    has_external_addresses: bool | UnreadableValue = False


def parse_workbench_inputs(inputs: Any) -> MachinePoolInputs:
    """Parse a Workbench instance."""
    setup = read_input(inputs, "gceSetup")
    size = read_input_number(setup, "bootDisk", "diskSizeGb")
    cards = [
        {"type": _card_name(read_input_text(card, "type")), "count": read_input(card, "coreCount")}
        for card in read_input_list(setup, "acceleratorConfigs")
    ]
    return MachinePoolInputs(
        "machine",
        _machine(read_input(setup, "machineType"), WORKBENCH_TYPE, cards),
        exact_count(Decimal(1)),
        WORKBENCH_DISK_GIB if size is None else size,
        _disk_name(read_input_text(setup, "bootDisk", "diskType"), WORKBENCH_DISK),
        has_external_addresses=_is_external(read_input(setup, "disablePublicIp")),
    )


def parse_dataproc_pools(inputs: Any) -> tuple[MachinePoolInputs, ...]:
    """Parse a Dataproc cluster's masters, workers and secondary workers, which are of the workers' type."""
    config = read_input(inputs, "clusterConfig")
    worker_type = read_input(config, "workerConfig", "machineType")
    is_internal = read_input(config, "gceClusterConfig", "internalIpOnly")
    is_external = False if is_internal is None else _is_external(is_internal)  # internal since image 2.2
    pools = []
    for name, key, default, machine_type in (
        ("master", "masterConfig", Decimal(1), read_input(config, "masterConfig", "machineType")),
        ("worker", "workerConfig", DATAPROC_WORKERS, worker_type),
        ("secondary", "preemptibleWorkerConfig", Decimal(0), worker_type),
    ):
        pool = read_input(config, key)
        count = read_input_number(pool, "numInstances")
        size = default if count is None else count
        size_gib = read_input_number(pool, "diskConfig", "bootDiskSizeGb")
        preemptibility = read_input_choice(pool, PREEMPTIBILITIES, "preemptibility")
        is_spot = name == "secondary" and preemptibility not in ("NON_PREEMPTIBLE", *UnreadableValue)
        pools.append(
            MachinePoolInputs(
                name,
                {
                    "machineType": DATAPROC_MACHINE if machine_type is None else machine_type,
                    "guestAccelerators": _dataproc_cards(pool),
                    "localSsdCount": read_input(pool, "diskConfig", "numLocalSsds"),
                },
                exact_count(size) if isinstance(size, Decimal) else None,
                DATAPROC_DISK_GIB if size_gib is None else size_gib,
                _disk_name(read_input_text(pool, "diskConfig", "bootDiskType"), "pd-standard"),
                is_spot,
                is_external,
            )
        )
    return tuple(pools)


def _is_external(setting: Any) -> bool | UnreadableValue:
    """Return whether machines have external addresses, of a setting that says that they have none."""
    return setting if isinstance(setting, UnreadableValue) else setting is not True


def parse_connector_inputs(inputs: Any) -> MachinePoolInputs:
    """Parse a VPC connector, which scales between its bounds."""
    minimum, maximum = read_input_number(inputs, "minInstances"), read_input_number(inputs, "maxInstances")
    count = group_size_range(
        CONNECTOR_MINIMUM if minimum is None else minimum,
        None,
        CONNECTOR_MAXIMUM if maximum is None else maximum,
    )
    return MachinePoolInputs("machine", _machine(read_input(inputs, "machineType"), CONNECTOR_TYPE), count)


def parse_dedicated_resources(inputs: Any, *path: str | int) -> MachinePoolInputs:
    """Parse the machines that a model or an index is deployed on, between their bounds."""
    resources = read_input(inputs, *path)
    return MachinePoolInputs(
        "machine",
        {
            "machineType": read_input_text(resources, "machineSpec", "machineType"),
            "card": read_input_text(resources, "machineSpec", "acceleratorType"),
            "cards": read_input_number(resources, "machineSpec", "acceleratorCount"),
        },
        group_size_range(
            read_input_number(resources, "minReplicaCount"),
            None,
            read_input_number(resources, "maxReplicaCount"),
        ),
    )


def price_workbench(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the machine of a notebook and its disk; a stopped one keeps its disk."""
    pool = parse_workbench_inputs(resource.inputs)
    is_stopped = read_input_text(resource.inputs, "desiredState") == STOPPED
    components = _pool_components(resource, graph, pool)
    return [each for each in components if not is_stopped or each.component.startswith("disk")]


def price_dataproc_cluster(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return a cluster's machines and disks, and Dataproc's fee for each of their vCPUs."""
    if read_input(resource.inputs, "virtualClusterConfig") is not None:
        return [
            UnpricedComponent("it runs on a GKE cluster, and Dataproc's fee is for what its jobs use", "fee")
        ]
    components: Components = []
    for pool in parse_dataproc_pools(resource.inputs):
        if pool.count is not None and not pool.count.high:
            continue
        components += _pool_components(resource, graph, pool)
        machine_type = pool.machine["machineType"]
        vcpus = find_vcpu_count(machine_type) if isinstance(machine_type, str) else None
        if vcpus and pool.count:
            context = service_context(resource, graph, GLOBAL, pool.count)
            components.append(context.make_part_component(f"fee:{pool.component}", "dataproc:vcpu", vcpus))
        elif not isinstance(machine_type, str):
            reason = "its machine type, whose vCPUs bill, is not known until deployment"
            components.append(UnpricedComponent(reason, f"fee:{pool.component}"))
    return components


def price_vpc_connector(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the machines that a connector runs, of which a connector of any traffic has its minimum."""
    return _pool_components(resource, graph, parse_connector_inputs(resource.inputs))


def price_model_garden_endpoint(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the machines of an endpoint that is declared with its model."""
    path = ("deployConfig", "dedicatedResources")
    return _prediction_components(resource, graph, parse_dedicated_resources(resource.inputs, *path))


def price_deployment_pool(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the machines that several models share."""
    pool = parse_dedicated_resources(resource.inputs, "dedicatedResources")
    return _prediction_components(resource, graph, pool)


def price_deployed_index(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the machines that serve an index; without dedicated ones Vertex AI chooses them."""
    if read_input(resource.inputs, "dedicatedResources") is None:
        return [UnpricedComponent("Vertex AI chooses the machines that serve it", "machine")]
    pool = parse_dedicated_resources(resource.inputs, "dedicatedResources")
    return _prediction_components(resource, graph, pool)


def price_workstation_config(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the machines that a configuration keeps ready; workstations bill while they run."""
    host = read_input(resource.inputs, "host", "gceInstance")
    size = number_or_unpriced(read_input_number(host, "poolSize"), "its pool size", "machine", Decimal(0))
    if isinstance(size, UnpricedComponent):
        return [size]
    by_use = UnpricedComponent(
        "its workstations bill while they run, which the program does not declare", "hours"
    )
    if not size:
        return [by_use]
    machine = _machine(read_input(host, "machineType"), WORKSTATION_TYPE)
    is_external = _is_external(read_input(host, "disablePublicIpAddresses"))
    pool = MachinePoolInputs("machine", machine, exact_count(size), has_external_addresses=is_external)
    return [*_pool_components(resource, graph, pool), by_use]


def find_vcpu_count(machine_type: str) -> Decimal | None:
    """Return the vCPUs that a machine type's name says; None for a name without a number."""
    match = _VCPUS.search(machine_type)
    return Decimal(match[1]) if match else None


def _pool_components(resource: StateResource, graph: ResourceGraph, pool: MachinePoolInputs) -> Components:
    """Return the machines of a pool with their cards and boot disks."""
    if pool.count is None:
        return [UnpricedComponent("its number of machines is not known until deployment", pool.component)]
    terms = graph.purchase_terms_of(resource, spot=pool.is_spot or None)
    region = find_region(resource, graph)
    machines = machine_components(parse_machine_inputs(pool.machine), region, terms, pool.count)
    context = MachinePartContext("gcp", region, terms.pool, pool.count, HOURS_PER_MONTH)
    components = [
        replace(each, component=_named(pool, each.component))
        for each in (*machines, *_part_components(pool, context))
    ]
    if pool.disk_type is None and pool.disk_gib is None:
        return [*components]
    name = f"disk:{pool.component}"
    gib = number_or_unpriced(pool.disk_gib, "size of its boot disk", name)
    disk_type = text_or_unpriced(pool.disk_type, "type of its boot disk", name)
    if isinstance(gib, UnpricedComponent):
        return [*components, gib]
    if isinstance(disk_type, UnpricedComponent):
        return [*components, disk_type]
    return [*components, context.make_part_component(name, disk_type, gib)]


def _part_components(pool: MachinePoolInputs, context: MachinePartContext) -> Components:
    """Return the external addresses and the local disks of a pool's machines."""
    machine_type = pool.machine["machineType"]
    count = number_if_known(read_input_number(pool.machine, "localSsdCount"))
    local_ssds = local_ssd_components(machine_type, int(count or 0), context)
    if isinstance(pool.has_external_addresses, UnreadableValue):
        marker = pool.has_external_addresses
        return [*local_ssds, *unpriced_if_unreadable(marker, "whether it has external addresses is", ADDRESS)]
    if not pool.has_external_addresses:
        return local_ssds
    return [*local_ssds, address_component(Decimal(1), context, is_spot=pool.is_spot)]


def _prediction_components(
    resource: StateResource, graph: ResourceGraph, pool: MachinePoolInputs
) -> Components:
    """Return the machines of a prediction service and their cards, at Vertex AI's prices."""
    machine_type = text_or_unpriced(pool.machine["machineType"], "machine type")
    if isinstance(machine_type, UnpricedComponent):
        return [machine_type]
    if pool.count is None:
        return [UnpricedComponent("its number of machines is not known until deployment", "machine")]
    context = service_context(resource, graph, count=pool.count)
    components: list[CostComponent | UnpricedComponent] = [
        context.make_part_component("machine", f"vertex:prediction:{machine_type}")
    ]
    card, cards = pool.machine["card"], pool.machine["cards"]
    if isinstance(card, UnreadableValue):
        components.append(UnpricedComponent(f"its accelerators are {MARKER_REASONS[card]}", "accelerators"))
    elif isinstance(cards, UnreadableValue):
        reason = f"the number of its accelerators is {MARKER_REASONS[cards]}"
        components.append(UnpricedComponent(reason, "accelerators"))
    elif card in (None, "ACCELERATOR_TYPE_UNSPECIFIED"):
        return [*components]
    elif cards is None:
        components.append(UnpricedComponent("the number of its accelerators is not set", "accelerators"))
    else:
        item = f"vertex:prediction:{_card_name(card)}"
        components.append(context.make_part_component("accelerators", item, cards))
    return [*components]


def _named(pool: MachinePoolInputs, component: str) -> str:
    return component if pool.component == "machine" else f"{pool.component}:{component}"


def _machine(machine_type: Any, default: str, cards: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {
        "machineType": default if machine_type is None else machine_type,
        "guestAccelerators": cards or [],
    }


def _dataproc_cards(pool: Any) -> list[dict[str, Any]]:
    return [
        {"type": read_input(card, "acceleratorType"), "count": read_input(card, "acceleratorCount")}
        for card in read_input_list(pool, "accelerators")
    ]


def _card_name(name: Text) -> Text:
    """Return Compute Engine's name of a card: NVIDIA_TESLA_T4 is nvidia-tesla-t4."""
    return name.lower().replace("_", "-") if isinstance(name, str) else name


def _disk_name(name: Text, default: str) -> Text:
    """Return Compute Engine's name of a disk type: PD_SSD is pd-ssd."""
    if name is None:
        return default
    return name.lower().replace("_", "-") if isinstance(name, str) else name
