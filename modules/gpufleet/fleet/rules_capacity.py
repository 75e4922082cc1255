"""Rules on capacity that is bought for a time or held: reservations, Capacity Blocks, flex-start, ladders.

What a machine is sold as comes from the catalogue's facts; a fact that no source states refuses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from gpufleet import catalog
from gpufleet.fleet.document import SpecProblem
from gpufleet.fleet.pool_facts import find_pool_facts
from gpufleet.fleet.purchase import (
    FLEX_START_MAX_HOURS,
    FLEX_START_MIN_HOURS,
    CapacityBlockPurchase,
    LadderPurchase,
)
from gpufleet.fleet.rule import POOL_RULES
from gpufleet.fleet.rules_purchase import list_rungs_with_paths
from gpufleet.fleet.spec import Pool

BLOCK_ID = r"cr-[0-9a-f]{8,17}"
OFFERING_ID = r"cb-[0-9a-z]{8,17}"
RESERVATION_IDS = {  # a pattern, and an example
    "aws": (BLOCK_ID, "cr-0123456789abcdef0"),
    "gcp": (r"(projects/[^/]+/reservations/)?[a-z]([a-z0-9-]{0,61}[a-z0-9])?", "my-reservation"),
    "azure": (
        r"(?i:/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft\.Compute/capacityReservationGroups/[^/]+)",
        "/subscriptions/…/resourceGroups/…/providers/Microsoft.Compute/capacityReservationGroups/…",
    ),
}
# The kinds that a ladder may have, in any number and order that the other rules allow.
LADDER_KINDS = {
    "aws": ("capacity_block", "reserved", "spot", "on_demand"),
    "gcp": ("reserved", "on_demand"),
    "azure": ("reserved", "on_demand"),
}


# A node names one reservation or group of reservations, or takes any: no order between two.
ONE_RESERVATION = ("gcp", "azure")


@POOL_RULES.register_rule(
    "reservation-creatable",
    reason="not every machine can be put into a new on-demand capacity reservation",
    source="catalog/data/machine_facts.csv, field creatable_reservation; MicrosoftDocs/azure-compute-docs "
    "capacity-reservation-overview.md (2026-02-17): no ND-series, no NCads H100 v5",
)
def check_reservation_can_be_created(pool: Pool) -> Iterator[SpecProblem]:
    facts = find_pool_facts(pool)
    for path, rung in list_rungs_with_paths(pool):
        if facts and facts.creatable_reservation is False and rung.reservation == "create":
            text = f"reservation is create, but {pool.machine} has no on-demand capacity reservation"
            remedy = "for a commitment that you have, write {kind: committed, term: 1y}; else kind: on_demand"
            yield SpecProblem((*path, "reservation"), text, remedy)


@POOL_RULES.register_rule(
    "machine-sold-so",
    reason="a machine must be sold by the kind of purchase that its pool uses",
    source="catalog/data/machine_facts.csv, field purchases, with the vendor's document and date of each",
)
def check_machine_is_sold_so(pool: Pool) -> Iterator[SpecProblem]:
    facts, cloud = find_pool_facts(pool), catalog.get_cloud(pool.cloud)
    if facts is None or not facts.purchases:
        return
    for path, rung in list_rungs_with_paths(pool):
        # What the cloud does not sell at all is rule purchase-sold's business.
        if rung.kind not in facts.purchases and rung.price_kind in cloud.price_kinds:
            text = f"kind is {rung.kind}, but {pool.machine} is not sold so"
            yield SpecProblem((*path, "kind"), text, f"give {' or '.join(sorted(facts.purchases))}")


@POOL_RULES.register_rule(
    "reservation-id",
    reason="a reservation is named as its cloud names it",
    source="EC2 API, CapacityReservationId; Google, reservations.insert, name; Azure, capacityReservationGroup: a "
    "resource id (virtualMachineScaleSet capacityReservation)",
)
def check_reservation_id(pool: Pool) -> Iterator[SpecProblem]:
    pattern, example = RESERVATION_IDS.get(pool.cloud, (".+", ""))
    title = catalog.get_cloud(pool.cloud).title
    for path, rung in list_rungs_with_paths(pool):
        name = rung.reservation
        if rung.kind == "reserved" and name not in (None, "create") and not re.fullmatch(pattern, str(name)):
            text = f"{name!r} is not a reservation of {title}"
            yield SpecProblem((*path, "reservation"), text, f"give create, or an id like {example}")


@POOL_RULES.register_rule(
    "block-id",
    reason="a Capacity Block is named by its reservation (cr-), an offering to buy by its own id (cb-)",
    source="EC2 API, PurchaseCapacityBlock: CapacityBlockOfferingId; its answer: CapacityReservationId",
)
def check_block_ids(pool: Pool) -> Iterator[SpecProblem]:
    for path, rung in list_rungs_with_paths(pool):
        if not isinstance(rung, CapacityBlockPurchase):
            continue
        for key, value, pattern, example in (
            ("reservation", rung.reservation, BLOCK_ID, "cr-0123456789abcdef0"),
            ("offering", rung.offering, OFFERING_ID, "cb-0123456789abcdef0"),
        ):
            if value is not None and not re.fullmatch(pattern, value):
                yield SpecProblem((*path, key), f"is {value!r}", f"give an id like {example}")


@POOL_RULES.register_rule(
    "block-bought-on-purpose",
    reason="a Capacity Block is paid at once and cannot be cancelled, so buying needs an offering and buy: true",
    source="AWS, Capacity Blocks for ML: reservations can't be cancelled; EC2 API, PurchaseCapacityBlock",
)
def check_block_is_bought_on_purpose(pool: Pool) -> Iterator[SpecProblem]:
    for path, rung in list_rungs_with_paths(pool):
        if rung.kind != "capacity_block":
            continue
        if (rung.reservation is None) == (rung.offering is None):
            text = "a Capacity Block needs exactly one of reservation and offering"
            yield SpecProblem(
                path, text, "give reservation: cr-… if you have one, or offering: cb-… and buy: true"
            )
        elif rung.buy != (rung.offering is not None):
            text = f"offering is {rung.offering or 'missing'}, but buy is {str(rung.buy).lower()}"
            yield SpecProblem((*path, "buy"), text, "to buy a Capacity Block, give offering and buy: true")


@POOL_RULES.register_rule(
    "block-zone",
    reason="a Capacity Block is in one zone, and its nodes start there or nowhere",
    source="EC2 API, CapacityBlockOffering: AvailabilityZone; AWS, Launch instances into Capacity Blocks: same zone",
)
def check_block_single_zone(pool: Pool) -> Iterator[SpecProblem]:
    has_block = any(rung.kind == "capacity_block" for _, rung in list_rungs_with_paths(pool))
    if has_block and len(pool.zones) != 1:
        text = f"zones is {list(pool.zones)}, but a Capacity Block is in exactly one zone"
        yield SpecProblem(("zones",), text, "name the zone of the block")


@POOL_RULES.register_rule(
    "flex-start-hours",
    reason="flex-start nodes run for 10 minutes to 7 days",
    source="Google, About Flex-start VMs and resize requests: run duration between 10 minutes and 7 days",
)
def check_flex_start_hours(pool: Pool) -> Iterator[SpecProblem]:
    for path, rung in list_rungs_with_paths(pool):
        hours = rung.max_run_hours
        if hours is not None and not FLEX_START_MIN_HOURS <= hours <= FLEX_START_MAX_HOURS:
            text = f"max_run_hours is {hours:g}, but flex-start nodes run for 10 minutes to 7 days"
            yield SpecProblem((*path, "max_run_hours"), text, "give 0.17 to 168")


@POOL_RULES.register_rule(
    "flex-start-fixed-count",
    reason="the size of a flex-start group belongs to its resize requests, so nothing may scale it",
    source="Google, About resize requests in a MIG: the group must not have an autoscaler",
)
def check_flex_start_count_fixed(pool: Pool) -> Iterator[SpecProblem]:
    if pool.purchase.kind == "flex_start" and pool.count.is_elastic:
        text = f"count is {pool.count.min} to {pool.count.max}, but a flex-start group has a fixed number"
        yield SpecProblem(("count",), text, "give one whole number")


@POOL_RULES.register_rule(
    "ladder-kinds",
    reason="a cloud must have means to go from one rung to the next",
    source="AWS: Auto Scaling groups with alarms; Google: reservationAffinity ANY_RESERVATION, for spot a fixed share "
    "in v1beta (InstanceFlexibilityPolicy.ProvisioningModelMix); MicrosoftDocs/azure-compute-docs "
    "capacity-reservation-overallocate.md, spot-priority-mix.md: a fixed split",
)
def check_ladder_kinds(pool: Pool) -> Iterator[SpecProblem]:
    kinds = LADDER_KINDS.get(pool.cloud)
    if kinds is None or not isinstance(pool.purchase, LadderPurchase):
        return
    for path, rung in list_rungs_with_paths(pool):
        if rung.kind not in kinds:
            title = catalog.get_cloud(pool.cloud).title
            text = f"kind is {rung.kind}, which cannot be a rung of a ladder on {title}"
            yield SpecProblem((*path, "kind"), text, f"give {' or '.join(kinds)}, or make two pools")
    held = [path for path, rung in list_rungs_with_paths(pool) if rung.kind == "reserved"]
    if pool.cloud in ONE_RESERVATION:
        title = catalog.get_cloud(pool.cloud).title
        for path in held[1:]:
            yield SpecProblem(path, f"a ladder on {title} uses one reservation", "make two pools")


@POOL_RULES.register_rule(
    "ladder-order",
    reason="prepaid and reserved capacity is paid anyway and comes first, on demand comes last",
    source="AWS, Capacity Reservations: billed whether used or not; a rung after on demand is never tried for price",
)
def check_ladder_order(pool: Pool) -> Iterator[SpecProblem]:
    if not isinstance(pool.purchase, LadderPurchase):
        return
    order = ("capacity_block", "reserved", "committed", "flex_start", "spot", "on_demand")
    rungs = list(list_rungs_with_paths(pool))
    for (_, before), (path, rung) in pairwise(rungs):
        if order.index(before.rungs[-1].kind) > order.index(rung.kind):
            text = f"{rung.kind} comes after {before.rungs[-1].kind}"
            yield SpecProblem(path, text, f"order the rungs as {', '.join(order)}")
        elif before == rung or (before.kind == rung.kind and before.reservation == rung.reservation):
            yield SpecProblem(path, f"{rung.kind} is tried twice", "remove one of the two")


@POOL_RULES.register_rule(
    "ladder-existing-reservation",
    reason="a created reservation holds every node of its pool, so no later rung would ever be used",
    source="instance_count of aws:ec2:CapacityReservation, sku.capacity of Azure's: the pool's count; on Google, other "
    "nodes of the project may use it too (Consume reservations, automatic consumption)",
)
def check_ladder_reservation_exists(pool: Pool) -> Iterator[SpecProblem]:
    if not isinstance(pool.purchase, LadderPurchase) or pool.cloud == "gcp":
        return
    for path, rung in list_rungs_with_paths(pool):
        if rung.reservation == "create":
            text = "reservation is create, but a rung of a ladder uses a reservation that exists"
            yield SpecProblem(
                (*path, "reservation"), text, "give its id, or use kind: reserved without a ladder"
            )
