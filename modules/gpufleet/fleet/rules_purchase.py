"""Rules on how capacity is bought. The spec's models already keep out keys of another purchase kind."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.fleet.document import Problem
from gpufleet.fleet.rule import pool_rule
from gpufleet.fleet.spec import Pool

ONE_ZONE = ("aws", "gcp")


@pool_rule(
    "cap-not-on-gcp",
    reason="Google sells spot at its own price; there is no bid and no cap",
    source="pulumi-gcp compute.Instance scheduling has no price argument",
)
def cap_not_on_gcp(pool: Pool) -> Iterator[Problem]:
    if pool.cloud == "gcp" and pool.purchase.max_usd_per_hour is not None:
        cap = f"{pool.purchase.max_usd_per_hour:g}"
        yield Problem(
            ("purchase", "max_usd_per_hour"), f"is {cap}, but GCP has no spot price cap", "remove it"
        )


@pool_rule(
    "fallback-only-on-aws",
    reason="Google and Azure start nothing by themselves when spot capacity is gone",
    source="pulumi-gcp and pulumi-azure-native have no alarm on a group that could set another group's size",
)
def fallback_only_on_aws(pool: Pool) -> Iterator[Problem]:
    if pool.purchase.fallback is not None and pool.cloud != "aws":
        text = f"is set, but {pool.cloud} starts nothing when spot capacity is gone"
        yield Problem(("purchase", "fallback"), text, "remove it, or add a second pool with kind: on_demand")


@pool_rule(
    "reservation-fixed-count",
    reason="a created reservation holds a fixed number of nodes",
    source="instance_count of aws:ec2:CapacityReservation, count of gcp:compute:Reservation, sku.capacity of Azure",
)
def reservation_fixed_count(pool: Pool) -> Iterator[Problem]:
    if pool.purchase.reservation == "create" and pool.count.elastic:
        text = f"is {pool.count.min} to {pool.count.max}, but a created reservation holds a fixed number"
        yield Problem(("count",), text, "give one whole number, or the id of a reservation that exists")


@pool_rule(
    "reservation-zone",
    reason="AWS and GCP hold capacity in one zone",
    source="availability_zone of aws:ec2:CapacityReservation and zone of gcp:compute:Reservation are required",
)
def reservation_zone(pool: Pool) -> Iterator[Problem]:
    if pool.purchase.reservation != "create" or pool.cloud not in ONE_ZONE or len(pool.zones) == 1:
        return
    text = f"is {list(pool.zones)}, but {pool.cloud} holds capacity in exactly one zone"
    yield Problem(("zones",), text, "name the one zone")


@pool_rule(
    "reserved-hours",
    reason="reserved capacity bills around the clock, used or not",
    source="capacity reservations bill until they are cancelled, on all three clouds",
)
def reserved_hours(pool: Pool) -> Iterator[Problem]:
    if pool.purchase.kind == "reserved" and pool.hours_per_month is not None:
        text = f"is {pool.hours_per_month}, but reserved capacity bills around the clock"
        yield Problem(("hours_per_month",), text, "remove it, or buy on_demand or spot")
