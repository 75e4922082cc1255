"""Rules on how capacity is bought. The spec's models already refuse keys of another purchase kind."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet import catalog
from gpufleet.fleet.document import KeyPath, SpecProblem
from gpufleet.fleet.purchase import PRICES_BY_KIND, LadderPurchase, Rung
from gpufleet.fleet.rule import POOL_RULES
from gpufleet.fleet.spec import Pool


def list_rungs_with_paths(pool: Pool) -> Iterator[tuple[KeyPath, Rung]]:
    """Yield the purchases that the pool's spec writes, each with its place."""
    purchase = pool.purchase
    if isinstance(purchase, LadderPurchase):
        for index, rung in enumerate(purchase.ladder):
            yield ("purchase", "ladder", index), rung
    else:
        yield ("purchase",), purchase


@POOL_RULES.register_rule(
    "purchase-sold",
    reason="a cloud must sell the kind of purchase, and the term, that the pool uses",
    source="catalog/cloud.py, price_kinds",
)
def check_purchase_kind_offered(pool: Pool) -> Iterator[SpecProblem]:
    cloud = catalog.get_cloud(pool.cloud)
    for path, rung in list_rungs_with_paths(pool):
        if rung.price_kind not in cloud.price_kinds:
            text = f"purchase is {rung.tag_value}, which {cloud.title} does not sell"
            kinds = [kind for kind, prices in PRICES_BY_KIND.items() if prices & set(cloud.price_kinds)]
            yield SpecProblem(path, text, f"give a kind that it sells: {', '.join(kinds)}")


@POOL_RULES.register_rule(
    "spot-price-cap",
    reason="Google sells spot at its own price; bids and price caps do not exist",
    source="pulumi-gcp compute.Instance scheduling has no price argument",
)
def check_spot_price_cap_supported(pool: Pool) -> Iterator[SpecProblem]:
    cloud = catalog.get_cloud(pool.cloud)
    for path, rung in list_rungs_with_paths(pool):
        if rung.max_usd_per_hour is not None and not cloud.has_spot_price_cap:
            text = f"max_usd_per_hour is {rung.max_usd_per_hour:g}, but {cloud.title} has no spot price cap"
            yield SpecProblem((*path, "max_usd_per_hour"), text, "remove it")


@POOL_RULES.register_rule(
    "spot-fallback",
    reason="Google and Azure do not start other nodes when spot capacity is gone",
    source="pulumi-gcp and pulumi-azure-native have no alarm on a group that could set another group's size",
)
def check_spot_fallback_supported(pool: Pool) -> Iterator[SpecProblem]:
    cloud = catalog.get_cloud(pool.cloud)
    for path, rung in list_rungs_with_paths(pool):
        if rung.fallback is not None and not cloud.has_spot_fallback:
            text = f"fallback is set, but {cloud.title} does not start other nodes when spot capacity is gone"
            yield SpecProblem(
                (*path, "fallback"), text, "remove it, or add a second pool with kind: on_demand"
            )


@POOL_RULES.register_rule(
    "spot-stop-on-aws",
    reason="a stopped spot instance has a request that outlives destroy and starts a node that nobody owns",
    source="hashicorp/terraform-provider-aws #38142: the provider never cancels it (PR #41206 is not merged)",
)
def check_aws_spot_is_not_stopped(pool: Pool) -> Iterator[SpecProblem]:
    for path, rung in list_rungs_with_paths(pool):
        if pool.cloud == "aws" and rung.on_eviction == "stop":
            text = "on_eviction is stop, but destroy would leave the spot request, which starts nodes again"
            remedy = "set on_eviction: delete: the group starts a new node as soon as there is capacity"
            yield SpecProblem((*path, "on_eviction"), text, remedy)


@POOL_RULES.register_rule(
    "reservation-fixed-count",
    reason="a created reservation holds a fixed number of nodes",
    source="instance_count of aws:ec2:CapacityReservation, count of gcp:compute:Reservation, sku.capacity of Azure",
)
def check_reservation_count_fixed(pool: Pool) -> Iterator[SpecProblem]:
    if pool.purchase.reservation == "create" and pool.count.is_elastic:
        text = (
            f"count is {pool.count.min} to {pool.count.max}, but a created reservation holds a fixed number"
        )
        yield SpecProblem(("count",), text, "give one whole number, or the id of a reservation that exists")


@POOL_RULES.register_rule(
    "reservation-zone",
    reason="AWS and GCP reserve capacity in one zone",
    source="availability_zone of aws:ec2:CapacityReservation and zone of gcp:compute:Reservation are required",
)
def check_reservation_single_zone(pool: Pool) -> Iterator[SpecProblem]:
    cloud = catalog.get_cloud(pool.cloud)
    if pool.purchase.reservation != "create" or not cloud.has_zonal_reservations or len(pool.zones) == 1:
        return
    text = f"zones is {list(pool.zones)}, but {cloud.title} reserves capacity in exactly one zone"
    yield SpecProblem(("zones",), text, "name the one zone")


@POOL_RULES.register_rule(
    "reserved-hours",
    reason="reserved capacity and commitments bill around the clock, used or not",
    source="capacity reservations bill until they are cancelled, commitments until they end, on all three clouds",
)
def check_no_hours_if_reserved(pool: Pool) -> Iterator[SpecProblem]:
    bills_always = any(rung.kind in ("reserved", "committed") for rung in pool.purchase.rungs)
    if bills_always and pool.hours_per_month is not None:
        text = f"hours_per_month is {pool.hours_per_month}, but reserved capacity bills around the clock"
        yield SpecProblem(("hours_per_month",), text, "remove it, or buy on_demand or spot")
