"""Extended support of EKS: a control plane of an old version bills more an hour than one of a new version.

A version that is not in the table and newer than it is taken to be supported; an older one is past its support,
as every version is supported for as long as those after it at most.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from functools import cache
from typing import Any

from gpufleet.boundary import packaged_rows
from gpufleet.cost.pricing.component import Components, UnpricedComponent
from gpufleet.cost.values import read_text

COMPONENT = "kubernetes_support"


def extended(inputs: Any, on: date | None = None) -> Components:
    """Name the surcharge of a pinned version whose standard support has ended (today), unless it is declined."""
    version = read_text(inputs, "version")
    if not isinstance(version, str) or read_text(inputs, "upgradePolicy", "supportType") == "STANDARD":
        return []
    asked, table = _order(version), ends()
    oldest = min(table, default=None)
    if asked is None or oldest is None:
        return []
    end = table.get(asked, table[oldest] if asked < oldest else None)
    if end is None or (on or datetime.now(UTC).date()) <= end:
        return []
    since = f"on {end}" if asked in table else f"before {end}"
    reason = (
        f"Kubernetes {version} left EKS's standard support {since}: extended support is not in the price list"
    )
    return [UnpricedComponent(reason, COMPONENT)]


@cache
def ends() -> dict[tuple[int, int], date]:
    """Return the day on which standard support of each version ends."""
    table = packaged_rows("gpufleet.cost", "data/eks_support.csv")
    rows = [(_order(row["version"]), row["standard_support_ends"]) for row in table]
    return {version: date.fromisoformat(day) for version, day in rows if version}


def _order(version: str) -> tuple[int, int] | None:
    major, _, minor = version.partition(".")
    minor = minor.partition(".")[0]
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else None
