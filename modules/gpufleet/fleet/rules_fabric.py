"""Rules on the fabric between the nodes of a pool."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet import catalog
from gpufleet.fleet.document import SpecProblem
from gpufleet.fleet.pool_facts import find_machine_fabric, find_pool_fabric, find_pool_facts
from gpufleet.fleet.rule import POOL_RULES, SPEC_RULES
from gpufleet.fleet.rules_placement import find_pool_machine
from gpufleet.fleet.spec import FleetSpec, Pool

FABRIC_TITLES = {
    "efa": "EFA",
    "infiniband": "InfiniBand",
    "gpudirect_tcpx": "GPUDirect-TCPX",
    "gpudirect_tcpxo": "GPUDirect-TCPXO",
    "gpudirect_rdma": "GPUDirect RDMA",
}


@POOL_RULES.register_rule(
    "fabric-of-machine",
    reason="a fabric exists only on the machines built with it",
    source="catalog/data/machine_facts.csv, field fabric: AWS DescribeInstanceTypes (EfaSupported), "
    "MicrosoftDocs' page of each size, Google's page on GPUDirect of each machine",
)
def check_machine_has_fabric(pool: Pool) -> Iterator[SpecProblem]:
    machine, own, facts = find_pool_machine(pool), find_machine_fabric(pool), find_pool_facts(pool)
    if machine is None or pool.fabric in ("none", "auto", own):
        return
    if facts is None or not facts.is_known("fabric"):
        return  # no source states it
    remedy = f"say {own}, auto or none" if own else "set fabric: none, or choose another machine"
    text = f"fabric is {pool.fabric!r}, but {machine.name} has {f'only {own}' if own else 'no such fabric'}"
    yield SpecProblem(("fabric",), text, remedy)


@POOL_RULES.register_rule(
    "efa-one-zone",
    reason="EFA traffic does not leave its zone",
    source="AWS ParallelCluster guide, Elastic Fabric Adapter: not supported over different availability zones",
)
def check_efa_single_zone(pool: Pool) -> Iterator[SpecProblem]:
    # A pool of one node that may grow in place is refused as well: its next node would start in the other zone.
    uses_efa = pool.fabric == "efa" or (pool.fabric == "auto" and find_machine_fabric(pool) == "efa")
    if uses_efa and len(pool.zones) > 1:
        text = f"zones is {list(pool.zones)}, but EFA traffic does not leave its zone"
        yield SpecProblem(("zones",), text, "name one zone")


@POOL_RULES.register_rule(
    "infiniband-one-zone",
    reason="InfiniBand connects nodes of one placement group, which is in one zone",
    source="MicrosoftDocs/azure-compute-docs virtual-machine-scale-sets-use-availability-zones.md: a placement "
    "group does not span zones; InfiniBand: one scale set with singlePlacementGroup",
)
def check_infiniband_single_zone(pool: Pool) -> Iterator[SpecProblem]:
    if find_pool_fabric(pool) == "infiniband" and len(pool.zones) > 1:
        text = f"zones is {list(pool.zones)}, but InfiniBand does not leave its placement group"
        yield SpecProblem(("zones",), text, "name one zone, or none")


@POOL_RULES.register_rule(
    "gpudirect-one-zone",
    reason="GPUDirect needs nodes that are placed together in one zone",
    source="Google, Placement policies: compact placement is within a zone; RDMA network profiles are zonal",
)
def check_gpudirect_single_zone(pool: Pool) -> Iterator[SpecProblem]:
    fabric = find_pool_fabric(pool) or ""
    if fabric.startswith("gpudirect") and len(pool.zones) != 1:
        text = f"zones is {list(pool.zones)}, but {FABRIC_TITLES[fabric]} needs one zone"
        yield SpecProblem(("zones",), text, "name the one zone")


@SPEC_RULES.register_rule(
    "rdma-project",
    reason="the network profile of GPUDirect RDMA is named with its project",
    source="Google, RDMA network profiles: projects/PROJECT/global/networkProfiles/ZONE-vpc-roce",
)
def check_rdma_project_known(spec: FleetSpec) -> Iterator[SpecProblem]:
    for index, pool in enumerate(spec.pools):
        if find_pool_fabric(pool) == "gpudirect_rdma" and spec.select_account(pool.account).gcp is None:
            text = "GPUDirect RDMA needs the project, and gcp.project is missing"
            yield SpecProblem(("pools", index, "fabric"), text, "add gcp: {project: …} to the fleet")


@POOL_RULES.register_rule(
    "fabric-group-size",
    reason="a fabric connects a limited number of nodes",
    source="catalog/data/machine_facts.csv, field max_fabric_nodes: MicrosoftDocs, singlePlacementGroup: 100; Google, "
    "Placement policies: nodes of one compact policy",
)
def check_fabric_group_size(pool: Pool) -> Iterator[SpecProblem]:
    facts, fabric = find_pool_facts(pool), find_pool_fabric(pool)
    limit = facts.max_fabric_nodes if facts else None
    if fabric and limit is not None and pool.count.max > limit:
        text = (
            f"count is {pool.count.max}, but {FABRIC_TITLES[fabric]} connects at most {limit} {pool.machine}"
        )
        yield SpecProblem(("count",), text, "give fewer nodes, or make several pools")


@POOL_RULES.register_rule(
    "infiniband-without-reservation",
    reason="InfiniBand needs a single placement group, and a capacity reservation needs none",
    source="learn.microsoft.com capacity-reservation-associate-virtual-machine-scale-set: singlePlacementGroup false; "
    "MicrosoftDocs, InfiniBand: singlePlacementGroup true",
)
def check_infiniband_without_reservation(pool: Pool) -> Iterator[SpecProblem]:
    is_reserved = any(rung.kind == "reserved" for rung in pool.purchase.rungs)
    if find_pool_fabric(pool) == "infiniband" and is_reserved:
        text = "purchase is reserved, but a capacity reservation and InfiniBand exclude each other"
        yield SpecProblem(
            ("purchase",), text, "give {kind: committed, term: 1y} or on_demand, or fabric: none"
        )


@POOL_RULES.register_rule(
    "group-reservation-zone",
    reason="Google chooses the zones of a group's nodes, a reservation has one zone",
    source="Google, regional managed instance groups, target distribution shape; Reservations: zonal",
)
def check_group_reservation_zone(pool: Pool) -> Iterator[SpecProblem]:
    is_group = pool.group or pool.count.is_elastic or len(pool.purchase.rungs) > 1
    is_reserved = any(rung.kind == "reserved" for rung in pool.purchase.rungs)
    if pool.cloud == "gcp" and is_group and is_reserved and len(pool.zones) != 1:
        text = f"zones is {list(pool.zones)}, but a group that uses a reservation needs its one zone"
        yield SpecProblem(("zones",), text, "name the zone of the reservation")


@POOL_RULES.register_rule(
    "gcp-node-zone",
    reason="a single Google node is made in a zone; only a group chooses one by itself",
    source="Google, REST, instances.insert: zone is required; regionInstanceGroupManagers: distributionPolicy",
)
def check_gcp_node_has_zone(pool: Pool) -> Iterator[SpecProblem]:
    is_group = pool.group or pool.count.is_elastic or bool(pool.purchase.machines)
    is_group = is_group or any(rung.kind == "flex_start" for rung in pool.purchase.rungs)
    if pool.cloud == "gcp" and not is_group and pool.count.max > 0 and not pool.zones:
        example = catalog.get_cloud(pool.cloud).example_zone_name(pool.region)
        yield SpecProblem(
            ("zones",), "zones is [], but a Google node needs a zone", f"give zones: [{example}]"
        )


@POOL_RULES.register_rule(
    "machine-in-zone",
    reason="a machine must be sold in the zone that its pool names",
    source="catalog/data/machine_facts.csv, field zones, with the vendor's document and date",
)
def check_machine_in_zone(pool: Pool) -> Iterator[SpecProblem]:
    facts = find_pool_facts(pool)
    known = facts.zones.get(pool.region, ()) if facts else ()
    what = f"{pool.accelerators.model} on {pool.machine}" if pool.accelerators else pool.machine
    for index, zone in enumerate(pool.zones):
        # Other zones do not exist: rule zone-in-region.
        if known and zone not in known and zone in (catalog.list_zones(pool.cloud, pool.region) or ()):
            text = f"{what} is not sold in {zone}"
            yield SpecProblem(("zones", index), text, f"give {' or '.join(known)}")
