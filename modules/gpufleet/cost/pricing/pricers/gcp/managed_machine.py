"""Managed services that run Compute Engine machines: Workbench, Dataproc, Vertex AI, VPC connectors, workstations.

Their machines have the prices of Compute Engine, and some services a fee on top. Vertex AI's prediction has prices of
its own, the items of ``vertex:prediction``. Defaults are of the provider's documentation; Dataproc's machine is of
pulumi-gcp 10.2, dataproc.Cluster, `machine_type`: "currently `n1-standard-4`".
"""

from __future__ import annotations

import re
from decimal import Decimal

from gpufleet.cost.inputs.values import read_input
from gpufleet.cost.money import Range
from gpufleet.cost.pricing.pricers.gcp.disk import list_local_ssds
from gpufleet.cost.pricing.pricers.gcp.location import normalize_name, pricer
from gpufleet.cost.pricing.pricers.gcp.machine import (
    find_machine_type,
    list_machine,
    make_address,
    with_default_type,
)
from gpufleet.cost.pricing.pricers.part_names import ADDRESS
from gpufleet.cost.pricing.pricers.reader import GLOBAL, Parts, Reader
from gpufleet.engine import UnreadableValue

WORKBENCH_TYPE = WORKSTATION_TYPE = "e2-standard-4"
CONNECTOR_TYPE, CONNECTOR_MINIMUM, CONNECTOR_MAXIMUM = "e2-micro", 2, 3
DATAPROC_TYPE = "n1-standard-4"
# Pools of a Dataproc cluster: their inputs, those with the machine type, and how many machines they have by default.
DATAPROC_POOLS = {
    "master": ("masterConfig", "masterConfig", 1),
    "worker": ("workerConfig", "workerConfig", 2),
    "secondary": ("preemptibleWorkerConfig", "workerConfig", 0),
}
PREEMPTIBILITIES = ("PREEMPTIBILITY_UNSPECIFIED", "NON_PREEMPTIBLE", "PREEMPTIBLE", "SPOT")
NO_CARD = "ACCELERATOR_TYPE_UNSPECIFIED"
STOPPED = "STOPPED"
_VCPUS = re.compile(r"-(\d{1,4})(?:-\d{1,8}(?:-ext)?)?\Z")


@pricer("gcp:workbench/instance:Instance")
def price_workbench(notebook: Reader) -> Parts:
    """Yield the machine of a notebook and its disk; a stopped one keeps its disk."""
    setup = with_default_type(notebook.inside("gceSetup"), WORKBENCH_TYPE).bought()
    if notebook.find_text("desiredState") != STOPPED:
        yield from _list_machines(setup, "acceleratorConfigs")
        yield from _list_addresses(setup, setup.find_flag("disablePublicIp"))
    with setup.of("disk:machine") as disk:
        kind = disk.text("bootDisk.diskType", "type of its boot disk", "pd-balanced")
        size = disk.number("bootDisk.diskSizeGb", "size of its boot disk", 150)
        yield disk.kept(normalize_name(kind), size=size)


@pricer("gcp:dataproc/cluster:Cluster")
def price_dataproc_cluster(cluster: Reader) -> Parts:
    """Yield a cluster's machines and disks, and Dataproc's fee for each of their vCPUs."""
    if cluster.has("virtualClusterConfig"):
        reason = "it runs on a GKE cluster, and Dataproc's fee is for what its jobs use"
        raise cluster.of("fee").refuse_use(reason)
    config = cluster.inside("clusterConfig")
    for name in DATAPROC_POOLS:
        yield from _list_dataproc_pool(config, name)


def _list_dataproc_pool(config: Reader, name: str) -> Parts:
    """Yield a pool: secondary workers are spot unless the program refuses that."""
    key, type_key, default_size = DATAPROC_POOLS[name]
    pool = with_default_type(
        config.inside(key), read_input(config.inputs, type_key, "machineType") or DATAPROC_TYPE
    )
    number = pool.find_number("numInstances")
    if (default_size if number is None else number) == 0:
        return
    preemptibility = pool.find_choice("preemptibility", PREEMPTIBILITIES)
    is_spot = name == "secondary" and preemptibility not in ("NON_PREEMPTIBLE", *UnreadableValue)
    nodes = pool.bought(spot=is_spot or None).times(
        lambda: Range.from_exact_value(pool.number("numInstances", "its number of machines", default_size))
    )
    machines = nodes.prefixed(f"{name}:")
    yield from _list_machines(machines, "accelerators", "diskConfig.numLocalSsds")
    is_internal = config.find_flag("gceClusterConfig.internalIpOnly")
    yield from _list_addresses(machines, True if is_internal is None else is_internal)  # since image 2.2
    with nodes.of(f"disk:{name}") as disk:
        kind = disk.text("diskConfig.bootDiskType", "type of its boot disk", "pd-standard")
        size = disk.number("diskConfig.bootDiskSizeGb", "size of its boot disk", 500)
        yield disk.kept(normalize_name(kind), size=size)
    with nodes.within(GLOBAL).of(f"fee:{name}") as fee:
        yield fee.part("dataproc:vcpu", size=_find_vcpus(fee))


def _find_vcpus(machine: Reader) -> Decimal:
    """Return the vCPUs that a machine type's name says."""
    machine_type = machine.text("machineType", "machine type")
    match = _VCPUS.search(machine_type)
    if match is None:
        raise machine.refuse(f"how many vCPUs {machine_type} has is not known")
    return Decimal(match[1])


@pricer("gcp:vpcaccess/connector:Connector")
def price_vpc_connector(connector: Reader) -> Parts:
    """Yield the machines that a connector runs, of which a connector of any traffic has its minimum."""

    def find_size() -> Range:
        minimum = connector.number("minInstances", "its number of machines", CONNECTOR_MINIMUM)
        maximum = connector.number("maxInstances", "its largest size", CONNECTOR_MAXIMUM)
        return Range.spanning(minimum, minimum, maximum)

    return _list_machines(with_default_type(connector, CONNECTOR_TYPE).times(find_size))


@pricer("gcp:workstations/workstationConfig:WorkstationConfig")
def price_workstation_config(config: Reader) -> Parts:
    """Yield the machines that a configuration keeps ready; workstations bill while they run."""
    host = with_default_type(config.inside("host.gceInstance"), WORKSTATION_TYPE).bought()
    if host.find_number("poolSize"):
        machines = host.times(
            lambda: Range.from_exact_value(host.number("poolSize", "its number of machines"))
        )
        yield from _list_machines(machines)
        yield from _list_addresses(machines, host.find_flag("disablePublicIpAddresses"))
    raise config.of("hours").refuse_use(
        "its workstations bill while they run, which the program does not declare"
    )


def _list_machines(machine: Reader, cards: str = "", local_ssds: str = "") -> Parts:
    """Yield machines with their cards and local disks; ``cards`` and ``local_ssds`` are inputs with those."""
    yield from list_machine(machine, cards)
    yield from list_local_ssds(
        machine.all_month(),
        find_machine_type(machine),
        lambda disks: disks.number(local_ssds, "its local disks", 0) if local_ssds else 0,
    )


def _list_addresses(machine: Reader, is_internal: bool | UnreadableValue | None) -> Parts:
    """Yield the external address of each machine unless it is internal."""
    with machine.of(ADDRESS) as address:
        if not address.known(is_internal or False, "whether it has external addresses"):
            yield make_address(address)


@pricer("gcp:vertex/aiEndpointWithModelGardenDeployment:AiEndpointWithModelGardenDeployment")
def price_model_garden_endpoint(endpoint: Reader) -> Parts:
    """Yield the machines of an endpoint that is declared with its model."""
    return _list_prediction_machines(endpoint, "deployConfig.dedicatedResources")


@pricer("gcp:vertex/aiDeploymentResourcePool:AiDeploymentResourcePool")
def price_deployment_pool(pool: Reader) -> Parts:
    """Yield the machines that several models share."""
    return _list_prediction_machines(pool, "dedicatedResources")


@pricer("gcp:vertex/aiIndexEndpointDeployedIndex:AiIndexEndpointDeployedIndex")
def price_deployed_index(index: Reader) -> Parts:
    """Yield the machines that serve an index; without dedicated ones Vertex AI chooses them."""
    if not index.has("dedicatedResources"):
        raise index.of("machine").refuse("Vertex AI chooses the machines that serve it")
    yield from _list_prediction_machines(index, "dedicatedResources")


def _list_prediction_machines(service: Reader, path: str) -> Parts:
    """Yield the machines of a prediction service and their cards, at Vertex AI's prices."""
    bounds = (f"{path}.minReplicaCount", f"{path}.maxReplicaCount")
    service = service.bought()
    with service.of("machine") as machine:
        name = machine.text(f"{path}.machineSpec.machineType", "machine type")
        yield machine.part(f"vertex:prediction:{name}", machine.group_size(*bounds))
    with service.of("accelerators") as cards:
        card = cards.text(f"{path}.machineSpec.acceleratorType", "its accelerator", NO_CARD)
        if card != NO_CARD:
            number = cards.number(f"{path}.machineSpec.acceleratorCount", "the number of its accelerators")
            yield cards.part(f"vertex:prediction:{normalize_name(card)}", cards.group_size(*bounds), number)
