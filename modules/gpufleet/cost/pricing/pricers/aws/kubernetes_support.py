"""Extended support of EKS: a control plane of an old version bills more an hour than one of a new version.

A version newer than those in the table counts as supported. An older one counts as past its support: no version
is supported longer than the next ones.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from functools import cache

from gpufleet.boundary import read_packaged_rows
from gpufleet.cost.inputs.values import Text
from gpufleet.cost.pricing.component import Components, UnpricedComponent

COMPONENT = "kubernetes_support"


def extended_support_components(version: Text, on_date: date | None = None) -> Components:
    """Return the surcharge of a cluster's version after its standard support; empty if EKS chooses the version."""
    if not isinstance(version, str):
        return []
    key, end_dates = _version_key(version), load_eks_support_end_dates()
    oldest = min(end_dates, default=None)
    if key is None or oldest is None:
        return []
    end = end_dates.get(key, end_dates[oldest] if key < oldest else None)
    if end is None or (on_date or datetime.now(UTC).date()) <= end:
        return []
    since = f"on {end}" if key in end_dates else f"before {end}"
    reason = (
        f"Kubernetes {version} left EKS's standard support {since}: extended support is not in the price list"
    )
    return [UnpricedComponent(reason, COMPONENT)]


@cache
def load_eks_support_end_dates() -> dict[tuple[int, int], date]:
    """Return the day on which standard support of each version ends."""
    rows = read_packaged_rows("gpufleet.cost", "data/eks_support.csv")
    end_days = [(_version_key(row["version"]), row.get_date("standard_support_ends")) for row in rows]
    return {version: day for version, day in end_days if version}


def _version_key(version: str) -> tuple[int, int] | None:
    major, _, minor = version.partition(".")
    minor = minor.partition(".")[0]
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else None
