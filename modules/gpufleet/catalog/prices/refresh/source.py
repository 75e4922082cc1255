"""The interface of a price source: a name, a cloud, and a method that reads one region."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from typing import Protocol

from gpufleet.catalog import data_file
from gpufleet.catalog.cloud import CLOUDS
from gpufleet.catalog.prices import snapshot
from gpufleet.catalog.prices.row import PriceRow, validate_price_row
from gpufleet.errors import EnvironmentFault, InputError


class MissingCredentials(EnvironmentFault):
    """A source needs credentials that are missing; ``hint`` names them."""


class RequestRejected(EnvironmentFault):
    """The server rejects the request permanently: a region that the account may not use, a wrong request."""


class SourceUnavailable(EnvironmentFault):
    """The server did not send a complete response after all retries; a later try may succeed."""


@dataclass(frozen=True)
class RefreshScope:
    """What to read: prices of ``day`` in ``regions``, or in all catalogue regions if empty."""

    day: date
    regions: tuple[str, ...] = ()

    def list_cloud_regions(self, cloud: str) -> tuple[str, ...]:
        """Return the regions to read of a cloud."""
        matches = tuple(filter(CLOUDS[cloud].is_region_name, self.regions))
        return matches if self.regions else list_priced_regions(cloud)


def list_priced_regions(cloud: str) -> tuple[str, ...]:
    """Return the regions of a cloud with embedded prices, without local zones."""
    regions = set(data_file.list_accelerator_regions(cloud))
    regions |= {region for owner, region, _ in snapshot.list_region_members() if owner == cloud}
    return tuple(sorted(filter(CLOUDS[cloud].is_region_name, regions)))


@dataclass(frozen=True)
class RegionPrices:
    """All prices of one region, and the items that were left out with reasons."""

    rows: tuple[PriceRow, ...]
    left_out: tuple[str, ...] = ()


class PriceSource(Protocol):
    """One API of one cloud. ``fetch_region_prices`` returns a complete region or raises one of the exceptions above."""

    @property
    def source_name(self) -> str:
        """Return the name in runs and messages."""
        ...

    @property
    def cloud_name(self) -> str:
        """Return the cloud."""
        ...

    def fetch_region_prices(self, region: str, scope: RefreshScope) -> RegionPrices:
        """Return every price of a region."""
        ...


def build_region_prices(candidate_rows: Iterable[PriceRow], left_out: Iterable[str] = ()) -> RegionPrices:
    """Return a batch of the valid rows; the others are listed as left out."""
    rows, rejected = [], list(left_out)
    for row in candidate_rows:
        try:
            rows.append(validate_price_row(row))
        except InputError as error:
            rejected.append(f"{' '.join(row.price_key)}: {error.problem}")
    return RegionPrices(tuple(rows), tuple(rejected))
