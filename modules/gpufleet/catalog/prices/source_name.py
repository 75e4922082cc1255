"""The names of the price sources for the command line, without imports of the sources."""

from __future__ import annotations

from gpufleet import catalog

CLOUDS = tuple(catalog.CLOUDS)
GPUHUNT_CLOUDS = ("aws", "gcp", "azure")  # of those, the ones that gpuhunt covers
OPT_IN_SOURCES = tuple(
    f"gpuhunt-{cloud}" for cloud in GPUHUNT_CLOUDS
)  # published by a third party: read only if named
SOURCE_NAMES = (
    "aws-price-list",
    "aws-spot-history",
    "aws-reserved-offerings",
    "aws-savings-plans",
    "aws-capacity-blocks",
    "gcp-billing-catalog",
    "azure-retail-prices",
    *OPT_IN_SOURCES,
)
