"""Capacity Block offerings of AWS: a search that never buys, with the lines that pin one in a spec."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from gpufleet import catalog
from gpufleet.boundary import is_identifier
from gpufleet.catalog.prices.refresh.aws import (
    ClientFactory,
    iterate_page_items,
    translate_boto_errors,
)
from gpufleet.errors import InputError
from gpufleet.nodes.cloud_api.account import take_bounded
from gpufleet.nodes.cloud_api.aws import create_client

MAX_OFFERINGS = 500
NAME = "capacity blocks"


@dataclass(frozen=True)
class BlockSearch:
    """What to search: so many machines for so many hours, in a region, starting in a time range."""

    machine: str
    count: int
    hours: int
    region: str
    earliest: datetime | None = None
    latest: datetime | None = None


@dataclass(frozen=True)
class BlockOffering:
    """One offering. Its id is valid for minutes to hours only; AWS charges the whole fee when it is bought."""

    id: str
    machine: str
    count: int
    hours: int
    region: str
    zone: str
    starts_at: datetime
    ends_at: datetime
    fee_usd: float

    @property
    def usd_per_machine_hour(self) -> float:
        return round(self.fee_usd / (self.count * self.hours), 4)

    def as_json(self) -> dict[str, Any]:
        """Return the offering for programs, with the purchase that pins it."""
        times = {"starts_at": self.starts_at.isoformat(), "ends_at": self.ends_at.isoformat()}
        price = {"usd_per_machine_hour": self.usd_per_machine_hour}
        return {**asdict(self), **times, **price, "purchase": self.build_purchase()}

    def build_purchase(self) -> dict[str, Any]:
        """Return the purchase of a pool that buys exactly this offering."""
        return {"kind": "capacity_block", "offering": self.id, "buy": True}

    def format_line(self) -> str:
        """Return the offering as one line."""
        start, end = (f"{moment:%Y-%m-%d %H:%M}" for moment in (self.starts_at, self.ends_at))
        return (
            f"{self.id}  {self.zone}  {start} to {end} UTC  {self.count} x {self.hours} h  "
            f"{self.fee_usd:,.2f} USD upfront, {self.usd_per_machine_hour:,.2f} per machine and hour"
        )

    def format_spec_lines(self) -> Iterator[str]:
        """Yield the lines of a pool in a spec."""
        yield f"machine: {self.machine}"
        yield f"count: {self.count}"
        yield f"region: {self.region}"
        yield f"zones: [{self.zone}]"
        yield f"purchase: {{kind: capacity_block, offering: {self.id}, buy: true}}"


def search_block_offerings(search: BlockSearch, create: ClientFactory = create_client) -> list[BlockOffering]:
    """Return the offerings, cheapest first. Malformed ones, and those in another currency, are left out."""
    _check_search(search)
    parameters: dict[str, Any] = {
        "InstanceType": search.machine,
        "InstanceCount": search.count,
        "CapacityDurationHours": search.hours,
        "MaxResults": 100,
    }
    if search.earliest:
        parameters["StartDateRange"] = search.earliest
    if search.latest:
        parameters["EndDateRange"] = search.latest
    with translate_boto_errors("ec2:DescribeCapacityBlockOfferings", NAME):
        call = create("ec2", search.region).describe_capacity_block_offerings
        items = iterate_page_items(call, "NextToken", "CapacityBlockOfferings", NAME, **parameters)
        answers = [_parse_offering(item, search.region) for item in take_bounded(items, NAME, MAX_OFFERINGS)]
    offerings = [offering for offering in answers if offering]
    return sorted(offerings, key=lambda offering: (offering.fee_usd, offering.starts_at, offering.id))


def _check_search(search: BlockSearch) -> None:
    catalog.get_machine(search.machine, "aws")
    facts = catalog.get_machine_facts(search.machine, "aws")
    if facts and facts.is_known("purchases") and "capacity_block" not in facts.purchases:
        problem = f"AWS does not sell Capacity Blocks of {search.machine}"
        remedy = f"give one such as p5.48xlarge; `gpufleet machine {search.machine}` shows how it is sold"
        raise InputError(problem, where="--machine", remedy=remedy)
    if not catalog.get_cloud("aws").is_region_name(search.region):
        raise InputError(f"{search.region!r} is not a region of AWS", where="--region")
    if search.earliest and search.latest and search.latest < search.earliest + timedelta(hours=search.hours):
        problem = f"no block of {search.hours} hours fits between --earliest and --latest"
        raise InputError(problem, where="--latest")


def _parse_offering(item: Mapping[str, Any], region: str) -> BlockOffering | None:
    id_, machine, zone = (
        str(item.get(key, "")) for key in ("CapacityBlockOfferingId", "InstanceType", "AvailabilityZone")
    )
    starts_at, ends_at = item.get("StartDate"), item.get("EndDate")
    hours, count = int(item.get("CapacityBlockDurationHours") or 0), int(item.get("InstanceCount") or 0)
    texts_are_fine = all(is_identifier(text, "name") for text in (id_, machine, zone))
    if not texts_are_fine or item.get("CurrencyCode") != "USD" or hours < 1 or count < 1:
        return None
    if not isinstance(starts_at, datetime) or not isinstance(ends_at, datetime):
        return None
    fee = float(item.get("UpfrontFee") or "nan")
    if not 0 < fee < float("inf"):
        return None
    return BlockOffering(
        id_, machine, count, hours, region, zone, starts_at.astimezone(UTC), ends_at.astimezone(UTC), fee
    )
