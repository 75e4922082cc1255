"""Extended support of EKS: a control plane of an old version bills more an hour than one of a new version.

A version newer than those in the table counts as supported. An older one counts as past its support: no version
is supported longer than the next ones.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from functools import cache
from typing import Any

from gpufleet.boundary import packaged_rows
from gpufleet.cost.inputs.values import read_text
from gpufleet.cost.pricing.component import Components, UnpricedComponent

COMPONENT = "kubernetes_support"


def extended_support_components(inputs: Any, on: date | None = None) -> Components:
    """Return the surcharge of a pinned version after its standard support, unless it is declined."""
    version = read_text(inputs, "version")
    if not isinstance(version, str) or read_text(inputs, "upgradePolicy", "supportType") == "STANDARD":
        return []
    key, end_dates = _version_key(version), load_support_ends()
    oldest = min(end_dates, default=None)
    if key is None or oldest is None:
        return []
    end = end_dates.get(key, end_dates[oldest] if key < oldest else None)
    if end is None or (on or datetime.now(UTC).date()) <= end:
        return []
    since = f"on {end}" if key in end_dates else f"before {end}"
    reason = (
        f"Kubernetes {version} left EKS's standard support {since}: extended support is not in the price list"
    )
    return [UnpricedComponent(reason, COMPONENT)]


@cache
def load_support_ends() -> dict[tuple[int, int], date]:
    """Return the day on which standard support of each version ends."""
    rows = packaged_rows("gpufleet.cost", "data/eks_support.csv")
    end_days = [(_version_key(row["version"]), row["standard_support_ends"]) for row in rows]
    return {version: date.fromisoformat(day) for version, day in end_days if version}


def _version_key(version: str) -> tuple[int, int] | None:
    major, _, minor = version.partition(".")
    minor = minor.partition(".")[0]
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else None
