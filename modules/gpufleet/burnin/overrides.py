"""Site overrides: a bound that one site sets otherwise, with a reason, a person and a date.

An override may be looser or stricter. It names the value that it replaces, so that it is looked at again when the
shipped value changes. Every report that it touched shows it.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpufleet.burnin.thresholds import Threshold


@dataclass(frozen=True)
class ThresholdOverride:
    """A shipped threshold and the one that the site judges by; ``kind`` None: on every kind of node."""

    kind: str | None
    shipped: Threshold
    site: Threshold


def apply_overrides(
    rows: tuple[Threshold, ...], overrides: tuple[ThresholdOverride, ...], node_kind: str
) -> tuple[Threshold, ...]:
    """Return the rows that a node of a kind is judged by at this site."""
    by_row = {override.shipped: override.site for override in overrides if override.kind in {None, node_kind}}
    return tuple(by_row.get(row, row) for row in rows)
