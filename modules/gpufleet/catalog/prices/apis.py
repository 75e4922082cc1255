"""The names of the sources, for the command line: nothing heavy is behind this file."""

from __future__ import annotations

CLOUDS = ("aws", "gcp", "azure")
ASKED_FOR = tuple(f"gpuhunt-{cloud}" for cloud in CLOUDS)  # second-hand: only by name
NAMES = (
    "aws-price-list",
    "aws-spot-history",
    "aws-reserved-offerings",
    "aws-savings-plans",
    "aws-capacity-blocks",
    "gcp-billing-catalog",
    "azure-retail-prices",
    *ASKED_FOR,
)
