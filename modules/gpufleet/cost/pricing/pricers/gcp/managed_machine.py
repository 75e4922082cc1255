"""Managed services that run Compute Engine machines: Workbench, Dataproc, Vertex AI, VPC connectors, workstations.

Their machines have the prices of Compute Engine, and some services a fee on top. Vertex AI's prediction has prices of
its own, the items of ``vertex:prediction``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from gpufleet.cost.inputs.values import text_if_known
from gpufleet.cost.money import Range
from gpufleet.cost.pricing.pricers.gcp.disk import list_local_ssds
from gpufleet.cost.pricing.pricers.gcp.location import last_url_segment, pricer
from gpufleet.cost.pricing.pricers.gcp.machine import CARD_PREFIX, includes_cards, make_address
from gpufleet.cost.pricing.pricers.part_names import ADDRESS
from gpufleet.cost.pricing.pricers.reader import GLOBAL, Parts, Reader

PREEMPTIBILITIES = ("PREEMPTIBILITY_UNSPECIFIED", "NON_PREEMPTIBLE", "PREEMPTIBLE", "SPOT")
NO_CARD = "ACCELERATOR_TYPE_UNSPECIFIED"
STOPPED = "STOPPED"
_VCPUS = re.compile(r"-(\d{1,4})(?:-\d{1,8}(?:-ext)?)?\Z")


@dataclass(frozen=True)
class Pool:
    """The paths of machines of one kind in a service's inputs, and what it makes where a program has no setting.

    ``internal`` is the flag of machines without external addresses, ``entry`` has the names of a card and its number.
    """

    machine: str
    machine_type: str
    count: str = ""
    default_count: int = 1
    maximum: str = ""
    default_maximum: int | None = None
    cards: str = ""
    entry: tuple[str, str] = ("type", "coreCount")
    internal: str = ""
    is_internal: bool = False
    disk: str = ""
    disk_type: str = ""
    disk_gib: int = 0
    local_ssds: str = ""


# The defaults are of the provider's documentation; Dataproc's machine of pulumi-gcp 10.2, dataproc.Cluster,
# `machine_type`: "currently `n1-standard-4`". Its machines are internal since image 2.2.
WORKBENCH = Pool(
    "gceSetup.machineType", "e2-standard-4", cards="gceSetup.acceleratorConfigs", internal="gceSetup.disablePublicIp",
    disk="gceSetup.bootDisk.{}", disk_type="pd-balanced", disk_gib=150,
)  # fmt: skip
CONNECTOR = Pool(
    "machineType", "e2-micro", "minInstances", 2, "maxInstances", 3, is_internal=True
)  # fmt: skip
WORKSTATION = Pool(
    "host.gceInstance.machineType", "e2-standard-4", "host.gceInstance.poolSize", 0,
    internal="host.gceInstance.disablePublicIpAddresses",
)  # fmt: skip
DATAPROC = {
    name: Pool(
        f"clusterConfig.{machine}.machineType", "n1-standard-4", f"clusterConfig.{config}.numInstances", count,
        cards=f"clusterConfig.{config}.accelerators", entry=("acceleratorType", "acceleratorCount"),
        internal="clusterConfig.gceClusterConfig.internalIpOnly", is_internal=True,
        disk=f"clusterConfig.{config}.diskConfig.{{}}", disk_type="pd-standard", disk_gib=500,
        local_ssds=f"clusterConfig.{config}.diskConfig.numLocalSsds",
    )
    for name, config, machine, count in (
        ("master", "masterConfig", "masterConfig", 1),
        ("worker", "workerConfig", "workerConfig", 2),
        ("secondary", "preemptibleWorkerConfig", "workerConfig", 0),
    )
}  # fmt: skip


@pricer
def price_workbench(notebook: Reader) -> Parts:
    """Yield the machine of a notebook and its disk; a stopped one keeps its disk."""
    if notebook.find_text("desiredState") != STOPPED:
        yield from _list_machines(notebook, "machine", WORKBENCH)
    yield from _list_boot_disk(notebook, "machine", WORKBENCH)


@pricer
def price_dataproc_cluster(cluster: Reader) -> Parts:
    """Yield a cluster's machines and disks, and Dataproc's fee for each of their vCPUs."""
    if cluster.has("virtualClusterConfig"):
        raise cluster.of("fee").refuse(
            "it runs on a GKE cluster, and Dataproc's fee is for what its jobs use"
        )
    preemptibility = cluster.find_choice(
        "clusterConfig.preemptibleWorkerConfig.preemptibility", PREEMPTIBILITIES
    )
    for name, pool in DATAPROC.items():
        is_spot = name == "secondary" and preemptibility in (None, *PREEMPTIBILITIES)
        is_spot = is_spot and preemptibility != "NON_PREEMPTIBLE"
        yield from _list_machines(cluster, name, pool, is_spot=is_spot)
        yield from _list_boot_disk(cluster, name, pool)
        with cluster.within(GLOBAL).of(f"fee:{name}") as fee:
            count, machine_type = _count(fee, pool), _find_type(fee, pool)
            if count.high:
                yield fee.part("dataproc:vcpu", count, _find_vcpus(fee, machine_type))


@pricer
def price_vpc_connector(connector: Reader) -> Parts:
    """Yield the machines that a connector runs, of which a connector of any traffic has its minimum."""
    return _list_machines(connector, "machine", CONNECTOR)


@pricer
def price_workstation_config(config: Reader) -> Parts:
    """Yield the machines that a configuration keeps ready; workstations bill while they run."""
    yield from _list_machines(config, "machine", WORKSTATION)
    raise config.of("hours").refuse(
        "its workstations bill while they run, which the program does not declare"
    )


@pricer
def price_model_garden_endpoint(endpoint: Reader) -> Parts:
    """Yield the machines of an endpoint that is declared with its model."""
    return _list_prediction_machines(endpoint, "deployConfig.dedicatedResources")


@pricer
def price_deployment_pool(pool: Reader) -> Parts:
    """Yield the machines that several models share."""
    return _list_prediction_machines(pool, "dedicatedResources")


@pricer
def price_deployed_index(index: Reader) -> Parts:
    """Yield the machines that serve an index; without dedicated ones Vertex AI chooses them."""
    if not index.has("dedicatedResources"):
        raise index.of("machine").refuse("Vertex AI chooses the machines that serve it")
    yield from _list_prediction_machines(index, "dedicatedResources")


def _list_prediction_machines(service: Reader, path: str) -> Parts:
    """Yield the machines of a prediction service and their cards, at Vertex AI's prices."""
    bounds = (f"{path}.minReplicaCount", f"{path}.maxReplicaCount")
    with service.of("machine") as machine:
        name = machine.text(f"{path}.machineSpec.machineType", "machine type")
        yield machine.part(f"vertex:prediction:{name}", machine.group_size(*bounds))
    with service.of("accelerators") as cards:
        card = cards.text(f"{path}.machineSpec.acceleratorType", "its accelerator", NO_CARD)
        if card != NO_CARD:
            number = cards.number(f"{path}.machineSpec.acceleratorCount", "the number of its accelerators")
            yield cards.part(f"vertex:prediction:{_join_words(card)}", cards.group_size(*bounds), number)


def _list_machines(service: Reader, name: str, pool: Pool, *, is_spot: bool = False) -> Parts:
    """Yield the machines of a pool, with what bills while they run, and their local disks."""
    number = service.find_number(pool.count)
    if (pool.default_count if number is None else number) == 0:
        return
    machines = (
        service.prefixed("" if name == "machine" else f"{name}:")
        .bought(spot=is_spot or None)
        .times(lambda: _count(service, pool))
    )
    with machines.of("machine") as machine:
        yield machine.machines(_find_type(machine, pool))
    with machines.of("accelerators") as cards:
        for index, entry in enumerate(cards.entries(pool.cards) if pool.cards else ()):
            name = f"accelerators:{index}" if index else "accelerators"
            with entry.of(name) as card:
                if includes_cards(_find_type(machines.of(name), pool)):
                    continue
                kind, number = (
                    card.text(pool.entry[0], "accelerator type"),
                    card.number(pool.entry[1], "their number"),
                )
                yield card.machines(f"{CARD_PREFIX}{_join_words(kind)}", size=number, is_part=True)
    machine_type = last_url_segment(text_if_known(machines.find_text(pool.machine)) or pool.machine_type)
    yield from list_local_ssds(
        machines.all_month(),
        machine_type,
        lambda disks: disks.number(pool.local_ssds, "its local disks", 0) if pool.local_ssds else 0,
    )
    with machines.of(ADDRESS) as address:
        if not _is_internal(address, pool):
            yield make_address(address)


def _list_boot_disk(service: Reader, name: str, pool: Pool) -> Parts:
    """Yield the boot disks, which remain while their machines are stopped."""
    with service.of(f"disk:{name}") as disk:
        kind = disk.text(_disk_path(pool, "Type"), "type of its boot disk", pool.disk_type)
        size = disk.number(_disk_path(pool, "SizeGb"), "size of its boot disk", pool.disk_gib)
        yield disk.kept(_join_words(kind), _count(disk, pool), size)


def _disk_path(pool: Pool, key: str) -> str:
    return f"{pool.disk.format(f'bootDisk{key}')} or {pool.disk.format(f'disk{key}')}"


def _is_internal(service: Reader, pool: Pool) -> bool:
    if not pool.internal:
        return pool.is_internal
    return service.flag(pool.internal, "whether it has external addresses", default=pool.is_internal)


def _count(service: Reader, pool: Pool) -> Range:
    count = Range.from_exact_value(pool.default_count)
    if pool.count:
        count = Range.from_exact_value(
            service.number(pool.count, "its number of machines", pool.default_count)
        )
    if not pool.maximum:
        return count
    maximum = service.number(pool.maximum, "its largest size", pool.default_maximum)
    return Range.spanning(count.low, count.expected, maximum)


def _find_type(service: Reader, pool: Pool) -> str:
    return last_url_segment(service.text(pool.machine, "machine type", pool.machine_type))


def _find_vcpus(service: Reader, machine_type: str) -> Decimal:
    """Return the vCPUs that a machine type's name says."""
    match = _VCPUS.search(machine_type)
    if match is None:
        raise service.refuse(f"how many vCPUs {machine_type} has is not known")
    return Decimal(match[1])


def _join_words(name: str) -> str:
    """Return Compute Engine's name of a card or a disk: NVIDIA_TESLA_T4 is nvidia-tesla-t4, PD_SSD is pd-ssd."""
    return last_url_segment(name).lower().replace("_", "-")
