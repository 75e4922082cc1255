"""Extended support of EKS: a control plane of an old version bills more an hour than one of a new version.

It is 0.60 instead of 0.10 USD an hour (aws.amazon.com/blogs/containers, "Amazon EKS extended support for Kubernetes
versions pricing", from April 2024).

A version newer than those in the table counts as supported. An older one counts as past its support: no version
is supported longer than the next ones.
"""

from __future__ import annotations

from datetime import date
from functools import cache

from gpufleet.boundary import read_packaged_rows
from gpufleet.cost.inputs.values import Text


def find_extended_support_note(version: Text, on_date: date) -> str:
    """Return when a cluster's version left standard support; empty if it has not, or EKS chooses the version."""
    if not isinstance(version, str):
        return ""
    key, end_dates = _version_key(version), load_eks_support_end_dates()
    oldest = min(end_dates, default=None)
    if key is None or oldest is None:
        return ""
    end = end_dates.get(key, end_dates[oldest] if key < oldest else None)
    if end is None or on_date <= end:
        return ""
    since = f"on {end}" if key in end_dates else f"before {end}"
    return f"Kubernetes {version} left EKS's standard support {since}"


@cache
def load_eks_support_end_dates() -> dict[tuple[int, int], date]:
    """Return the day on which standard support of each version ends."""
    rows = read_packaged_rows("gpufleet.cost", "data/eks_support.csv")
    end_days = [(_version_key(row["version"]), row.get_date("standard_support_ends")) for row in rows]
    return {version: day for version, day in end_days if version}


def is_version(text: str) -> bool:
    """Return whether a text is a version of Kubernetes: 1.31."""
    return _version_key(text) is not None


def _version_key(version: str) -> tuple[int, int] | None:
    major, _, minor = version.partition(".")
    minor = minor.partition(".")[0]
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else None
