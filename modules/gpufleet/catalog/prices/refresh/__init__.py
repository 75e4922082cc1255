"""Prices from where they are made: the clouds' own APIs, into the local store.

One small file a source. Each reads one region at a time, whole or not at all; ``refresh`` stages what it read and
makes a source's regions visible together, after the checks. Killed or cut off, it goes on where it was. ``make``
gives the sources by name; each needs nothing but its name until it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from functools import partial

from gpufleet.catalog.prices.apis import ASKED_FOR, CLOUDS, NAMES
from gpufleet.catalog.prices.refresh.aws import Offered
from gpufleet.catalog.prices.refresh.aws_blocks import AwsBlocks
from gpufleet.catalog.prices.refresh.aws_list import AwsList
from gpufleet.catalog.prices.refresh.aws_reserved import AwsReserved
from gpufleet.catalog.prices.refresh.aws_savings import AwsSavings
from gpufleet.catalog.prices.refresh.aws_spot import AwsSpot
from gpufleet.catalog.prices.refresh.azure import Azure
from gpufleet.catalog.prices.refresh.feed import Batch, NoCredentials, Refused, Scope, Source, Unreachable
from gpufleet.catalog.prices.refresh.google import Google
from gpufleet.catalog.prices.refresh.hunted import Hunted
from gpufleet.catalog.prices.refresh.run import Move, Outcome, refresh, verdict
from gpufleet.catalog.prices.refresh.web import Web
from gpufleet.errors import InputError

__all__ = [
    "Batch",
    "Move",
    "NoCredentials",
    "Offered",
    "Outcome",
    "Refused",
    "Scope",
    "Source",
    "Unreachable",
    "Web",
    "make",
    "refresh",
    "scope",
    "verdict",
]


def scope(day: date, regions: Sequence[str] = (), cloud: str | None = None) -> Scope:
    """Return what to read; a region that none of the clouds could have is refused."""
    clouds = (cloud,) if cloud else CLOUDS
    found = Scope(day, tuple(dict.fromkeys(regions)))
    for region in found.regions:
        if not any(region in found.of(each) for each in clouds):
            raise InputError(
                f"{region!r} is no region of {' or '.join(clouds)}",
                where="--region",
                remedy="write it like us-east-1 (aws), us-east1 (gcp), eastus (azure)",
            )
    return found


def make(
    names: Sequence[str], cloud: str | None, wanted: Scope, say: Callable[[str], None] = lambda _: None
) -> list[Source]:
    """Return the sources of these names; of no names, all but those that must be asked for.

    Those of another cloud than ``cloud``, and those whose cloud has none of the wanted regions, are left away.
    """
    web, offered = Web(say=say), Offered()
    made: dict[str, Callable[[], Source]] = {
        "aws-price-list": lambda: AwsList(offered=offered),
        "aws-spot-history": AwsSpot,
        "aws-reserved-offerings": AwsReserved,
        "aws-savings-plans": AwsSavings,
        "aws-capacity-blocks": AwsBlocks,
        "gcp-billing-catalog": lambda: Google(web),
        "azure-retail-prices": lambda: Azure(web),
        **{f"gpuhunt-{each}": partial(Hunted, each, web) for each in CLOUDS},
    }
    chosen = [made[name]() for name in NAMES if name in names or (not names and name not in ASKED_FOR)]
    return [source for source in chosen if cloud in {None, source.cloud} and wanted.of(source.cloud)]
