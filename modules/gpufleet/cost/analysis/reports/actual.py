"""The billed and the declared cost: table and JSON."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from gpufleet.cost.analysis.actual import ActualComparison, PoolComparison
from gpufleet.cost.analysis.bill_period import BillPeriod
from gpufleet.cost.analysis.reports.actual_nodes import build_node_document, format_node_lines
from gpufleet.cost.analysis.reports.summary import pluralize
from gpufleet.cost.analysis.reports.table import align_columns, format_titled_list
from gpufleet.cost.formatting import format_usd, round_for_json
from gpufleet.cost.money import ZERO, round_to_cents

TOTAL = "(all pools)"
MAX_UNTAGGED_LINES = 20
MAX_LISTED_MONTHS = 6


def format_actual_table(comparison: ActualComparison) -> str:
    """Return the period, a row for each pool with the reasons of its difference, and what no pool has."""
    billed = comparison.billed
    counts = comparison.nodes.node_counts_by_pool if comparison.nodes else {}
    rows = [
        (
            each.pool,
            *([_format_count(counts.get(each.pool, (0, 0)))] if comparison.nodes else []),
            format_usd(each.declared_usd),
            format_usd(each.billed_usd),
            format_usd(each.difference_usd, show_sign=True),
        )
        for each in comparison.pools
    ]
    declared, invoiced = (
        sum((getattr(each, key) for each in comparison.pools), ZERO) for key in ("declared_usd", "billed_usd")
    )
    rows.append(
        (
            TOTAL,
            *([""] if comparison.nodes else []),
            format_usd(declared),
            format_usd(invoiced),
            format_usd(invoiced - declared, show_sign=True),
        )
    )
    header = ("POOL", *(["NODES"] if comparison.nodes else []), "DECLARED", "BILLED", "DIFFERENCE")
    reasons = [f"{each.pool}: {_format_reasons(each)}" for each in comparison.pools if each.difference_usd]
    other = [f"{format_usd(billed.other_stacks_usd)}"] if billed.other_stacks_usd else []
    return "\n".join(
        [
            *_format_head(comparison),
            "",
            *align_columns(header, rows),
            *format_titled_list("Reasons", reasons),
            *(format_node_lines(comparison.nodes) if comparison.nodes else []),
            *format_titled_list("Billed without the tag gpufleet-pool", _format_groups(billed.untagged_usd)),
            *format_titled_list("Not usage, and of no pool", _format_groups(billed.other_usd)),
            *format_titled_list("Billed for other stacks", other),
            *format_titled_list("Not compared: no rows of", comparison.missing_clouds),
            *format_titled_list("Notes", _list_notes(comparison)),
        ]
    )


def _format_count(counts: tuple[int, int]) -> str:
    return "{} of {}".format(*counts)


def _format_head(comparison: ActualComparison) -> list[str]:
    billed, periods = comparison.billed, comparison.periods
    rows = pluralize(billed.row_count, "row")
    same = len(set(periods.values())) <= 1
    by_cloud = {} if same else {cloud or "other": period for cloud, period in sorted(periods.items())}
    return [
        f"{billed.stack}: {_format_period(comparison.period)}; {rows}",
        *(f"  {cloud}: {_format_period(period)}" for cloud, period in by_cloud.items()),
        f"cost: {', '.join(sorted(billed.columns))}; billed in all: {format_usd(billed.usd)}",
    ]


def _format_period(period: BillPeriod) -> str:
    number = f"{period.months:.3f}".rstrip("0").rstrip(".")
    length = f"{period.hours:,.0f} h, {number} {'month' if number == '1' else 'months'}"
    return f"{period.start:%Y-%m-%d %H:%M} to {period.end:%Y-%m-%d %H:%M} UTC: {length}"


def _format_groups(groups: Mapping[str, Decimal]) -> list[str]:
    ordered = sorted(groups.items(), key=lambda item: -abs(item[1]))
    lines = [f"{name}: {format_usd(usd)}" for name, usd in ordered[:MAX_UNTAGGED_LINES]]
    if rest := ordered[MAX_UNTAGGED_LINES:]:
        lines.append(f"{len(rest)} more: {format_usd(sum((usd for _, usd in rest), ZERO))}")
    return lines


def _list_notes(comparison: ActualComparison) -> list[str]:
    """Return what a reader must know of the export."""
    notes, billed, nodes = [], comparison.billed, comparison.nodes
    if nodes and nodes.unbilled and not nodes.billed:
        notes.append(
            "no row names a registered node: export resource ids, and activate the cost allocation tag gpufleet-node"
        )
    invoiced = billed.invoiced_usd
    if invoiced is not None and round_to_cents(invoiced) != round_to_cents(billed.usd):
        notes.append(
            f"the invoices say {format_usd(invoiced)} (BilledCost), not {format_usd(billed.usd)}: "
            "here a commitment's cost is in the usage that it pays for"
        )
    if billed.corrected_usd:
        notes.append(
            f"Azure's export gives purchases of commitments an effective cost, {format_usd(billed.corrected_usd)}, "
            "that the usage has too: it counts once (microsoft/finops-toolkit#1092)"
        )
    if billed.repeated_files:
        earlier, place = billed.repeated_files
        rows = pluralize(billed.repeated_rows, "row")
        notes.append(
            f"at least {rows}, {format_usd(billed.repeated_usd)}, are counted twice if the exports overlap: "
            f"{place} is also in {earlier}; give each time of a cloud once"
        )
    if missing := billed.list_months_without_usage():
        months = ", ".join(
            " ".join(filter(None, (month, cloud))) for cloud, month in missing[:MAX_LISTED_MONTHS]
        )
        more = f" and {len(missing) - MAX_LISTED_MONTHS} more" if len(missing) > MAX_LISTED_MONTHS else ""
        notes.append(
            f"no usage is billed in {months}{more}, of which the declared cost is counted: give these exports too"
        )
    if billed.paid_elsewhere_rows:
        notes.append(
            f"{billed.paid_elsewhere_rows:,} rows of machines cost 0 because a reservation or savings plan pays: "
            "Azure's amortized cost details have its share in each row"
        )
    return notes


def _format_reasons(each: PoolComparison) -> str:
    parts = [f"{format_usd(usd, show_sign=True)} {reason}" for reason, usd in each.rounded_reasons if usd]
    return ", ".join(parts)


def build_actual_document(comparison: ActualComparison) -> dict[str, Any]:
    """Return the comparison as JSON."""
    billed, period = comparison.billed, comparison.period
    return {
        "stack": billed.stack,
        "currency": "USD",
        "start": period.start.isoformat(),
        "end": period.end.isoformat(),
        "hours": float(period.hours),
        "months": round(float(period.months), 6),
        "periods": [
            {
                "cloud": cloud,
                "start": each.start.isoformat(),
                "end": each.end.isoformat(),
                "hours": float(each.hours),
            }
            for cloud, each in sorted(comparison.periods.items())
        ],
        "rows": billed.row_count,
        "repeated_rows": billed.repeated_rows,
        "repeated_usd": round_for_json(billed.repeated_usd),
        "cost_columns": sorted(billed.columns),
        "billed_usd": round_for_json(billed.usd),
        "invoiced_usd": None if billed.invoiced_usd is None else round_for_json(billed.invoiced_usd),
        "pools": [
            {
                "pool": each.pool,
                "declared_usd": round_for_json(each.declared_usd),
                "billed_usd": round_for_json(each.billed_usd),
                "difference_usd": round_for_json(each.difference_usd),
                "reasons": [{"reason": reason, "usd": float(usd)} for reason, usd in each.rounded_reasons],
            }
            for each in comparison.pools
        ],
        "total": {
            "declared_usd": round_for_json(sum((each.declared_usd for each in comparison.pools), ZERO)),
            "billed_usd": round_for_json(sum((each.billed_usd for each in comparison.pools), ZERO)),
            "difference_usd": round_for_json(sum((each.difference_usd for each in comparison.pools), ZERO)),
        },
        "corrected_usd": round_for_json(billed.corrected_usd),
        "untagged": [
            {"service": service, "usd": round_for_json(usd)}
            for service, usd in sorted(billed.untagged_usd.items())
        ],
        "other": [
            {"kind": kind, "usd": round_for_json(usd)} for kind, usd in sorted(billed.other_usd.items())
        ],
        "other_stacks_usd": round_for_json(billed.other_stacks_usd),
        "registry": build_node_document(comparison.nodes) if comparison.nodes else None,
        "not_compared": list(comparison.missing_clouds),
        "notes": _list_notes(comparison),
    }
