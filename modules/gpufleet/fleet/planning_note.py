"""Planning notes: sentences on what a declared fleet costs and what it does not do."""

from __future__ import annotations

from datetime import UTC, date, datetime

from gpufleet import catalog
from gpufleet.catalog import HOURS_PER_MONTH
from gpufleet.catalog.attachable_card import get_card_part
from gpufleet.fleet.pool_facts import find_pool_facts
from gpufleet.fleet.pool_volume import count_local_drives, largest_local_gib
from gpufleet.fleet.rack_warning import note_equal_prices
from gpufleet.fleet.spec import Fleet, Pool

# What planning advice names for the phase with reserved A100 machines (the project's issue 3, stacks table).
PLANNED_USD_PER_MONTH = (2000, 5000)
PAID_ALWAYS = ("reserved", "committed")


def pool_node_usd_per_hour(pool: Pool) -> float | None:
    """Return what one node of a pool costs per running hour, None where a price is unknown."""
    kind = pool.purchase.price_kind
    price = catalog.find_machine_price(pool.cloud, pool.region, pool.machine, kind)
    if price is None or pool.accelerators is None:
        return None if price is None else price.usd_per_hour
    part = get_card_part(pool.accelerators.model)
    card = catalog.find_cloud_part_price(pool.cloud, pool.region, part, kind)
    return None if card is None else price.usd_per_hour + pool.accelerators.count * card.usd_per_hour


def list_planning_notes(fleet: Fleet, today: date | None = None) -> tuple[str, ...]:
    """Return notes that are useful before the fleet is built."""
    sentences = (
        note_expiry(fleet, today),
        _note_reserved_cost(fleet),
        _note_affordable_hours(fleet),
        _note_spot_without_fallback(fleet),
        _note_unnamed_subscription(fleet.select_account(None)),
        *(_note_autoscaler_without_signal(part) for part in fleet.split_by_account()),
        _note_unknown_facts(fleet),
        _note_retirements(fleet),
        _note_missing_local_drives(fleet),
        _note_images_without_digest(fleet),
        *(note_equal_prices(rack.rack) for rack in fleet.racks),
    )
    return tuple(note for note in sentences if note)


def _note_missing_local_drives(fleet: Fleet) -> str:
    """Return a note on pools whose template lays out local drives that their machine does not have."""
    pools = [
        f"{pool.machine} of {pool.name}"
        for pool in fleet.pools
        if fleet.resolve_blueprint(pool.template).hardware.storage.layout != "none"
        and count_local_drives(fleet, pool, pool.machine) == 0
    ]
    return f"hardware.storage has no effect without local drives: {', '.join(pools)}" if pools else ""


def note_expiry(fleet: Fleet, today: date | None = None) -> str:
    """Return a note on a day that is over, else nothing. The spec stays valid: whoever cleans up needs it."""
    if fleet.expires is None or fleet.expires >= (today or datetime.now(UTC).date()):
        return ""
    return (
        f"the stack expired on {fleet.expires}: a sweep reports it; run `pulumi destroy`, or change expires"
    )


def _note_unnamed_subscription(fleet: Fleet) -> str:
    """Return a note on Azure pools without a subscription: a build needs one from the provider's own settings."""
    names = [pool.name for pool in fleet.pools if pool.cloud == "azure"]
    if not names or fleet.azure is not None or fleet.provider_subscription:
        return ""
    return (
        f"azure.subscription is missing: `pulumi up` refuses {', '.join(names)} unless azure-native:subscriptionId "
        "or ARM_SUBSCRIPTION_ID names one"
    )


def _note_autoscaler_without_signal(fleet: Fleet) -> str:
    """Return a note on elastic pools of Google whose nodes may not report the load that would scale them."""
    names = [pool.name for pool in fleet.pools if pool.cloud == "gcp" and pool.count.is_elastic]
    if not names or (fleet.gcp is not None and fleet.gcp.service_account):
        return ""
    return (
        f"nothing scales {', '.join(names)} within its bounds: its nodes report their GPU load only with a "
        "gcp.service_account"
    )


def _note_unknown_facts(fleet: Fleet) -> str:
    """Return a note on what the rules could not check, because no source states it."""
    unknown = [text for pool in fleet.pools if (text := _list_unknown_facts(fleet, pool))]
    return f"not checked, because no source states it: {'; '.join(unknown)}" if unknown else ""


def _list_unknown_facts(fleet: Fleet, pool: Pool) -> str:
    facts = find_pool_facts(pool)
    missing = []
    if facts is None or not facts.purchases:
        missing.append(f"whether it is sold as {pool.purchase.kind}")
    card = pool.accelerators.model if pool.accelerators else None
    if catalog.is_sold_in(pool.cloud, pool.machine, pool.region, card) is None:
        missing.append(f"whether it is sold in {pool.region}")
    elif pool.cloud == "gcp" and pool.zones and facts is not None and not facts.zones.get(pool.region):
        missing.append(f"whether it is sold in {' and '.join(pool.zones)}")
    volumes = fleet.resolve_blueprint(pool.template).application.volumes
    if any(volume.kind == "nvme" for volume in volumes) and largest_local_gib(pool) is None:
        missing.append("its local drives")
    return f"{', '.join(missing)} ({pool.machine} of {pool.name})" if missing else ""


def _note_retirements(fleet: Fleet) -> str:
    retirements = {
        pool.machine: facts.retires
        for pool in fleet.pools
        if (facts := find_pool_facts(pool)) is not None and facts.retires is not None
    }
    listed = ", ".join(f"{machine} on {day}" for machine, day in retirements.items())
    return f"machines that their cloud will retire: {listed}" if listed else ""


def _note_images_without_digest(fleet: Fleet) -> str:
    """Return a note on images that may change under a running fleet."""
    images = [
        container.image
        for name in sorted(_used_templates(fleet))
        for file in fleet.resolve_blueprint(name).container_files
        for container in file.containers
        if "@sha256:" not in container.image
    ]
    return (
        f"images without a digest may differ from node to node: {', '.join(dict.fromkeys(images))}"
        if images
        else ""
    )


def _used_templates(fleet: Fleet) -> set[str]:
    named = {item.template for kind in (fleet.pools, fleet.workstations, fleet.racks) for item in kind}
    return {name for name in named if name}


def _note_reserved_cost(fleet: Fleet) -> str:
    pools = [pool for pool in fleet.pools if pool.purchase.kind in PAID_ALWAYS]
    if not pools:
        return ""
    usd, unpriced = _sum_usd_per_hour(pools)
    names = ", ".join(pool.name for pool in pools)
    return (
        f"reserved capacity and commitments bill around the clock, used or not: {names}, "
        f"{usd * HOURS_PER_MONTH:,.0f} USD a month{_format_unpriced(unpriced)}"
    )


def _note_affordable_hours(fleet: Fleet) -> str:
    usd, unpriced = _sum_usd_per_hour(fleet.pools)
    low, high = PLANNED_USD_PER_MONTH
    if usd * HOURS_PER_MONTH <= high or not any(pool.purchase.kind in PAID_ALWAYS for pool in fleet.pools):
        return ""
    return (
        f"the pools cost {usd:,.2f} USD an hour together{_format_unpriced(unpriced)}: "
        f"the {low:,} to {high:,} USD a month that planning advice names for this phase "
        f"buy {low / usd:.0f} to {high / usd:.0f} hours, not a month"
    )


def _note_spot_without_fallback(fleet: Fleet) -> str:
    names = [
        pool.name for pool in fleet.pools if pool.purchase.kind == "spot" and pool.purchase.fallback is None
    ]
    if not names:
        return ""
    return (
        f"spot nodes without a fallback stay missing while the cloud has no spot capacity: {', '.join(names)}"
    )


def _sum_usd_per_hour(pools: list[Pool] | tuple[Pool, ...]) -> tuple[float, list[str]]:
    """Return what the pools cost per hour at desired size, and the names of those without a price."""
    prices = {pool.name: pool_node_usd_per_hour(pool) for pool in pools}
    known = sum(pool.count.desired * (prices[pool.name] or 0.0) for pool in pools)
    return known, [name for name, price in prices.items() if price is None]


def _format_unpriced(unpriced: list[str]) -> str:
    return f" (without {', '.join(unpriced)}, whose price is not in the catalogue)" if unpriced else ""
