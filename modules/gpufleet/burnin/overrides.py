"""Site overrides: a bound that one site sets otherwise, or of its own, with a reason, a person and a date.

An override may be looser or stricter. It names the value that it replaces, so that it is looked at again when the
shipped value changes; a bound on a metric without a shipped one replaces nothing. Every report that it touched
shows it.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpufleet.burnin.thresholds import Threshold


@dataclass(frozen=True)
class ThresholdOverride:
    """What the site judges by; ``kind`` None: on every kind of node; ``shipped`` None: nothing is replaced."""

    kind: str | None
    shipped: Threshold | None
    site: Threshold

    def is_for(self, node_kind: str | None) -> bool:
        """Return whether the override applies to a kind of node; None stands for all kinds."""
        return node_kind is None or self.kind in {None, node_kind}


def apply_overrides(
    rows: tuple[Threshold, ...],
    overrides: tuple[ThresholdOverride, ...],
    node_kind: str,
    *,
    rehearsal: bool = False,
) -> tuple[Threshold, ...]:
    """Return the rows that a node of a kind is judged by at this site; rehearsals have no bounds of the site's own."""
    by_row = {override.shipped: override.site for override in overrides if override.kind in {None, node_kind}}
    added = () if rehearsal else list_own_bounds(overrides, node_kind)
    return (*(by_row.get(row, row) for row in rows), *added)


def list_own_bounds(overrides: tuple[ThresholdOverride, ...], node_kind: str | None) -> tuple[Threshold, ...]:
    """Return the site's bounds that replace no shipped one; None: of every kind of node."""
    return tuple(
        override.site for override in overrides if override.shipped is None and override.is_for(node_kind)
    )
