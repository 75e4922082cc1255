"""The result of a refresh, as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpufleet.catalog.prices.refresh.run import PriceChange, SourceRefreshOutcome
from gpufleet.catalog.prices.report import format_indented_json, format_price_findings, price_finding_as_dict

MAX_SHOWN_LINES = 5  # of changes and of left-out items


@dataclass(frozen=True)
class RefreshPriceCounts:
    """The numbers of one source."""

    imported: int
    set_apart: int
    new: int
    changed: int
    unchanged: int


def count_refreshed_prices(outcome: SourceRefreshOutcome) -> RefreshPriceCounts:
    """Return the numbers of a source; zero if nothing became visible."""
    summary = outcome.summary
    imported, set_apart = (summary.imported, summary.set_apart) if summary else (0, 0)
    return RefreshPriceCounts(imported, set_apart, outcome.new, len(outcome.changes), outcome.unchanged)


def format_refresh_outcomes(outcomes: Sequence[SourceRefreshOutcome]) -> str:
    """Return the new, changed and missing prices of every source as text."""
    return "\n".join(line for outcome in outcomes for line in _format_outcome(outcome))


def _format_outcome(outcome: SourceRefreshOutcome) -> list[str]:
    lines = [f"{outcome.source}: {_format_heading(outcome)}"]
    lines += [f"  {_format_change(change)}" for change in outcome.changes[:MAX_SHOWN_LINES]]
    lines += _limit_lines([f"left out: {entry}" for entry in outcome.left_out])
    lines += _limit_lines(
        [f"not offered: {region}: {reason}" for region, reason in sorted(outcome.rejected.items())]
    )
    lines += _limit_lines(
        [f"not read: {region}: {reason}" for region, reason in sorted(outcome.failed.items())]
    )
    return lines + (format_price_findings(outcome.summary.findings) if outcome.summary else [])


def _format_heading(outcome: SourceRefreshOutcome) -> str:
    if outcome.state == "stored":
        counts = count_refreshed_prices(outcome)
        return (
            f"{counts.imported} prices of {len(outcome.regions)} regions: {counts.new} new, {counts.changed} changed"
            f"{_format_change_range(outcome.changes)}, {counts.unchanged} unchanged, {counts.set_apart} set apart"
        )
    if outcome.state == "known":
        return f"nothing to do, {outcome.reason} (--force reads it again)"
    if outcome.state == "unfinished":
        return f"unfinished, none of its prices are in use yet: {outcome.reason}"
    return f"skipped: {outcome.reason}" + (f"; {outcome.hint}" if outcome.hint else "")


def _format_change_range(changes: Sequence[PriceChange]) -> str:
    if not changes:
        return ""
    shares = sorted(change.relative_price_change for change in changes)
    return f" ({shares[0]:+.1%} to {shares[-1]:+.1%}, median {shares[len(shares) // 2]:+.1%})"


def _format_change(change: PriceChange) -> str:
    row = change.row
    key = " ".join(row.price_key)
    return f"{key}: {change.usd_before:g} -> {row.usd_per_hour:g} ({change.relative_price_change:+.1%})"


def _limit_lines(lines: list[str]) -> list[str]:
    overflow = [f"  and {len(lines) - MAX_SHOWN_LINES} more"] if len(lines) > MAX_SHOWN_LINES else []
    return [f"  {line}" for line in lines[:MAX_SHOWN_LINES]] + overflow


def format_refresh_outcomes_json(outcomes: Sequence[SourceRefreshOutcome]) -> str:
    """Return the complete result as JSON."""
    return format_indented_json({"sources": [_outcome_as_dict(outcome) for outcome in outcomes]})


def _outcome_as_dict(outcome: SourceRefreshOutcome) -> dict[str, Any]:
    counts = count_refreshed_prices(outcome)
    return {
        "source": outcome.source,
        "cloud": outcome.cloud,
        "state": outcome.state,
        "reason": outcome.reason or None,
        "hint": outcome.hint,
        "regions": list(outcome.regions),
        "imported": counts.imported,
        "new": counts.new,
        "changed": [_change_as_dict(change) for change in outcome.changes],
        "same": counts.unchanged,
        "set_apart": counts.set_apart,
        "findings": [
            price_finding_as_dict(finding)
            for finding in (outcome.summary.findings if outcome.summary else ())
        ],
        "left_out": outcome.left_out,
        "not_offered": outcome.rejected,
        "not_read": outcome.failed,
    }


def _change_as_dict(change: PriceChange) -> dict[str, Any]:
    cloud, region, item, purchase = change.row.price_key
    return {
        "cloud": cloud, "region": region, "item": item, "purchase": purchase, "before": change.usd_before,
        "after": change.row.usd_per_hour, "change": round(change.relative_price_change, 6),
    }  # fmt: skip
