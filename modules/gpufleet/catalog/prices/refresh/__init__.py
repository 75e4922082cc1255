"""Refresh the local price store from the clouds' own APIs.

One file per source. A source reads one region at a time, completely or not at all. ``refresh`` stages the rows and
makes the regions of a source visible together after the checks; a killed refresh resumes. ``build_sources`` returns the
sources by name; they need neither network nor credentials until they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from functools import partial

from gpufleet import paths
from gpufleet.catalog.prices.known_name import load_known_names
from gpufleet.catalog.prices.name_suggestion import load_priced_names
from gpufleet.catalog.prices.refresh.aws import RegionMachineTypes
from gpufleet.catalog.prices.refresh.aws_capacity_blocks import AwsCapacityBlockSource
from gpufleet.catalog.prices.refresh.aws_file import AwsPriceFileSource
from gpufleet.catalog.prices.refresh.aws_price_list import AwsPriceListSource
from gpufleet.catalog.prices.refresh.aws_reserved import AwsReservedSource
from gpufleet.catalog.prices.refresh.aws_savings import AwsSavingsPlanSource
from gpufleet.catalog.prices.refresh.aws_spot import AwsSpotSource
from gpufleet.catalog.prices.refresh.azure import AzureRetailPriceSource
from gpufleet.catalog.prices.refresh.google import GoogleBillingSource
from gpufleet.catalog.prices.refresh.gpuhunt_archive import GpuhuntArchiveSource
from gpufleet.catalog.prices.refresh.http_client import HttpClient
from gpufleet.catalog.prices.refresh.run import (
    PriceChange,
    SourceRefreshOutcome,
    find_refresh_failure,
    refresh_prices,
)
from gpufleet.catalog.prices.refresh.source import (
    MissingCredentials,
    PriceSource,
    RefreshScope,
    RegionPrices,
    RequestRejected,
    SourceUnavailable,
)
from gpufleet.catalog.prices.similar_name import ask_about_names, find_similar_names
from gpufleet.catalog.prices.source_name import (
    AWS_FILE_SOURCES,
    CLOUDS,
    GPUHUNT_CLOUDS,
    OPT_IN_SOURCES,
    SOURCE_NAMES,
)
from gpufleet.errors import InputError

__all__ = [
    "HttpClient",
    "MissingCredentials",
    "PriceChange",
    "RefreshScope",
    "RegionPrices",
    "RequestRejected",
    "SourceRefreshOutcome",
    "SourceUnavailable",
    "build_price_sources",
    "build_refresh_scope",
    "find_refresh_failure",
    "refresh_prices",
]


ONE_MISTAKE = 0.85  # likeness of region names with one wrong letter, or two swapped ones


def build_refresh_scope(
    day: date, regions: Sequence[str] = (), cloud: str | None = None, *, allow_new_regions: bool = False
) -> RefreshScope:
    """Return the scope of a refresh; raise InputError for a region that no cloud can have, and for a misspelt one."""
    clouds = (cloud,) if cloud else CLOUDS
    scope = RefreshScope(day, tuple(dict.fromkeys(regions)))
    for region in scope.regions:
        if not any(region in scope.list_cloud_regions(known_cloud) for known_cloud in clouds):
            raise InputError(
                f"{region!r} is not a region of {' or '.join(clouds)}",
                where="--region",
                remedy=ask_about_names(find_similar_names(region, _list_known_regions(clouds)))
                or "write it like us-east-1 (aws), us-east1 (gcp), eastus (azure)",
            )
        if not allow_new_regions:
            _check_misspelt_region(scope, region, clouds)
    return scope


def _check_misspelt_region(scope: RefreshScope, region: str, clouds: Sequence[str]) -> None:
    """Raise InputError for an unknown region whose name is close to a known one; another number is a new region."""
    matching_clouds = [cloud for cloud in clouds if region in scope.list_cloud_regions(cloud)]
    known_regions = _list_known_regions(matching_clouds)
    if region in known_regions or _strip_number(region) in set(map(_strip_number, known_regions)):
        return
    similar = find_similar_names(region, known_regions, cutoff=ONE_MISTAKE)
    if similar:
        raise InputError(
            f"no price is known for region {region!r} of {' or '.join(matching_clouds)}",
            where="--region",
            remedy=f"{ask_about_names(similar)} --force reads it as a new region",
        )


def _list_known_regions(clouds: Sequence[str]) -> set[str]:
    """Return the regions of these clouds with a price, also of the store if there is one."""
    store_file = paths.find_price_store_file()
    names = load_priced_names() if store_file and store_file.exists() else load_known_names(None)
    return {region for cloud in clouds for region in names.regions.get(cloud, ())}


def _strip_number(region: str) -> str:
    return region.rstrip("0123456789")


def build_price_sources(
    names: Sequence[str],
    cloud: str | None,
    scope: RefreshScope,
    report: Callable[[str], None] = lambda _: None,
) -> list[PriceSource]:
    """Return the sources of these names; without names, all except the opt-in sources.

    Sources of other clouds than ``cloud`` are omitted, and sources without a region in the scope.
    """
    http, offerings = HttpClient(report=report), RegionMachineTypes()
    factories: dict[str, Callable[[], PriceSource]] = {
        **{name: partial(AwsPriceFileSource, name, http) for name in AWS_FILE_SOURCES},
        "aws-price-list": lambda: AwsPriceListSource(offerings=offerings),
        "aws-spot-history": AwsSpotSource,
        "aws-reserved-offerings": AwsReservedSource,
        "aws-savings-plans": AwsSavingsPlanSource,
        "aws-capacity-blocks": AwsCapacityBlockSource,
        "gcp-billing-catalog": lambda: GoogleBillingSource(http),
        "azure-retail-prices": lambda: AzureRetailPriceSource(http),
        **{
            f"gpuhunt-{known_cloud}": partial(GpuhuntArchiveSource, known_cloud, http)
            for known_cloud in GPUHUNT_CLOUDS
        },
    }
    chosen = [
        factories[name]()
        for name in SOURCE_NAMES
        if name in names or (not names and name not in OPT_IN_SOURCES)
    ]
    return [
        source
        for source in chosen
        if cloud in {None, source.cloud_name} and scope.list_cloud_regions(source.cloud_name)
    ]
