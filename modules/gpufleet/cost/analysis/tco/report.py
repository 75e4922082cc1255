"""The comparison as JSON and as a table for a terminal."""

from __future__ import annotations

from typing import Any

from gpufleet.cost.analysis.reports.table import Row, align_columns, format_titled_list
from gpufleet.cost.analysis.tco.cloud import HOURS, CloudAlternative
from gpufleet.cost.analysis.tco.comparison import RackCloudComparison
from gpufleet.cost.analysis.tco.rack import RackCost
from gpufleet.cost.analysis.tco.sensitivity import build_sensitivity_cases
from gpufleet.cost.formatting import format_hourly_rate, format_usd
from gpufleet.cost.money import to_decimal

Table = tuple[Row, list[Row]]
"""A header and its rows."""


def build_tco_document(
    comparison: RackCloudComparison, alternatives: list[CloudAlternative]
) -> dict[str, Any]:
    """Return the comparison, its figures and their sources."""
    rack, cloud = comparison.rack, comparison.cloud
    return {
        "rack": rack.name,
        "own": {
            "machine": rack.machine, "nodes": rack.nodes, "cores": rack.cores, "memory_gib": rack.memory_gib,
            "capital_usd": round(rack.purchase_price_usd, 2), "residual_usd": round(rack.resale_value_usd, 2),
            "months": rack.months_of_use, "usd_per_hour": round(rack.total_usd_per_month / HOURS, 6),
            "usd_per_month": round(rack.total_usd_per_month, 2),
            "usd_per_node_month": round(rack.total_usd_per_month / rack.nodes, 4),
            "usd_per_core_month": _round_or_none(rack.total_usd_per_month / rack.cores if rack.cores else None),
            "parts_usd_per_month": {part: round(money, 4) for part, money in rack.usd_per_month_by_part.items()},
            "left_out": list(rack.cost.missing_cost_parts), "assumptions": list(rack.cost.assumed_figure_names),
            "source": rack.cost.figure_sources_text,
        },
        "cloud": {
            **_alternative_document(cloud, comparison.utilisation),
            "utilisation": comparison.utilisation, "because": cloud.reason,
        },
        "break_even_month": _round_or_none(comparison.break_even_month),
        "within_life": comparison.is_paid_back_within_life,
        "break_even_utilisation": _round_or_none(comparison.break_even_utilisation),
        "saved_usd_per_month": round(comparison.saved_usd_per_month, 2),
        "sensitivity": [
            {
                "figure": case.figure, "value": case.value,
                "break_even_month": _round_or_none(case.comparison.break_even_month),
                "break_even_utilisation": _round_or_none(case.comparison.break_even_utilisation),
                "saved_usd_per_month": round(case.comparison.saved_usd_per_month, 2),
            }
            for case in build_sensitivity_cases(comparison)
        ],
        "others": [_alternative_document(other, comparison.utilisation) for other in alternatives],
    }  # fmt: skip


def _alternative_document(alternative: CloudAlternative, utilisation: float) -> dict[str, Any]:
    price = alternative.price
    return {
        "machine": alternative.machine,
        "region": alternative.region,
        "purchase": alternative.purchase,
        "count": alternative.count,
        "usd_per_month": round(alternative.usd_per_month_at_utilisation(utilisation), 2),
        "storage_usd_per_month": round(alternative.storage_usd_per_month, 2),
        "price": {"usd_per_hour": price.usd_per_hour, "as_of": price.as_of, "source": price.source},
        "note": alternative.note,
    }


def _round_or_none(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _usd(amount: float) -> str:
    return format_usd(to_decimal(repr(round(amount, 6))))


def format_payback_headline(comparison: RackCloudComparison) -> str:
    """Return a sentence about the month in which the rack has paid for itself."""
    rack, offer = comparison.rack, comparison.cloud
    cloud = f"{offer.count} x {offer.machine} in {offer.region} ({offer.purchase.replace('_', ' ')})"
    month = comparison.break_even_month
    if month is None:
        return f"{rack.name} never pays for itself against {cloud}: its operating costs alone are higher"
    if not comparison.is_paid_back_within_life:
        late = f"in month {month:.1f}, after its {rack.months_of_use:g} months of use"
        return f"{rack.name} would pay for itself against {cloud} {late}"
    return f"{rack.name} has paid for itself against {cloud} in month {month:.1f} of {rack.months_of_use:g}"


def format_tco_table(comparison: RackCloudComparison, alternatives: list[CloudAlternative]) -> str:
    """Return headline, figures, other machines and sensitivity as text."""
    lines = [format_payback_headline(comparison), *(f"  {line}" for line in list_answers(comparison))]
    for header, rows in build_tco_tables(comparison, alternatives).values():
        lines += ["", *align_columns(header, rows)]
    for title, notes in list_tco_notes(comparison, alternatives).items():
        lines += format_titled_list(title, notes)
    return "\n".join(lines)


def build_tco_tables(
    comparison: RackCloudComparison, alternatives: list[CloudAlternative]
) -> dict[str, Table]:
    """Return what the rack costs, what it is compared with, and what changes the result, each with its title."""
    others = [other for other in alternatives if other.machine != comparison.cloud.machine]
    return {
        "To own": _cost_table(comparison.rack),
        "To rent": _alternative_table([comparison.cloud, *others], comparison),
        "If a figure changes": _sensitivity_table(comparison),
    }


def list_tco_notes(
    comparison: RackCloudComparison, alternatives: list[CloudAlternative]
) -> dict[str, list[str]]:
    """Return what the figures leave out, assume and come from, by title."""
    return {
        "Not in the rack's figure": _missing_part_lines(comparison),
        "Assumptions, not measured": [", ".join(comparison.rack.cost.assumed_figure_names)],
        "Remarks": _remark_lines(comparison, alternatives),
        "Sources": _source_lines(comparison),
    }


def list_answers(comparison: RackCloudComparison) -> list[str]:
    """Return both costs a month and over the life of the rack, and the use above which it is cheaper."""
    share = comparison.break_even_utilisation
    utilisation_text = "the cloud bills all hours of the month"
    if share is not None:
        utilisation_text = f"cheaper if the cloud machines would run more than {share:.1%} of the time"
    if share == 0:
        disks = _usd(comparison.cloud.storage_usd_per_month)
        utilisation_text = f"cheaper at any use: disks alone cost {disks} a month to rent"
    rack, cloud = _usd(comparison.rack.total_usd_per_month), _usd(comparison.cloud_usd_per_month)
    months, cloud_total = comparison.rack.months_of_use, _usd(comparison.cloud_total_usd)
    return [
        f"{rack} a month to own, {cloud} to rent at {comparison.utilisation:.0%} of the time; {utilisation_text}",
        f"over {months:g} months {_usd(comparison.rack_total_usd)} to own, {cloud_total} to rent",
    ]


def _cost_table(rack: RackCost) -> Table:
    def format_figure_row(name: str, month: float) -> tuple[str, ...]:
        cells = [month / HOURS, month / HOURS / rack.nodes]
        cells += [month / HOURS / rack.cores] if rack.cores else []
        return (name, _usd(month), *(format_hourly_rate(to_decimal(repr(cell))) for cell in cells))

    rows: list[Row] = [format_figure_row(part, month) for part, month in rack.usd_per_month_by_part.items()]
    header = ("WHAT", "USD/MONTH", "USD/HOUR", "PER NODE", *(["PER CORE"] if rack.cores else []))
    return header, [*rows, format_figure_row("all", rack.total_usd_per_month)]


def _alternative_table(alternatives: list[CloudAlternative], comparison: RackCloudComparison) -> Table:
    rows: list[Row] = []
    for cloud in alternatives:
        month = RackCloudComparison(comparison.rack, cloud, comparison.utilisation).break_even_month
        usd_per_month = cloud.usd_per_month_at_utilisation(comparison.utilisation)
        rows.append(
            (
                f"{cloud.count} x {cloud.machine}", cloud.region, cloud.purchase.replace("_", " "),
                format_hourly_rate(to_decimal(cloud.price.usd_per_hour)), _usd(usd_per_month),
                "never" if month is None else f"{month:.1f}",
            )
        )  # fmt: skip
    return ("WHAT", "REGION", "PURCHASE", "USD/HOUR", "USD/MONTH", "BREAK-EVEN MONTH"), rows


def _sensitivity_table(comparison: RackCloudComparison) -> Table:
    rows: list[Row] = []
    for case in build_sensitivity_cases(comparison):
        month, utilisation = case.comparison.break_even_month, case.comparison.break_even_utilisation
        rows.append(
            (
                case.figure, case.value, "never" if month is None else f"{month:.1f}",
                "-" if utilisation is None else f"{utilisation:.1%}", _usd(case.comparison.saved_usd_per_month),
            )
        )  # fmt: skip
    return ("WHAT", "VALUE", "BREAK-EVEN MONTH", "BREAK-EVEN USE", "SAVED/MONTH"), rows


def _missing_part_lines(comparison: RackCloudComparison) -> list[str]:
    parts = comparison.rack.cost.missing_cost_parts
    if not parts:
        return []
    saved = comparison.saved_usd_per_month
    text = f"{', '.join(parts)}: not declared in the rack file"
    return [
        f"{text}; the rack stays cheaper if they cost at most {_usd(saved)} a month" if saved > 0 else text
    ]


def _remark_lines(comparison: RackCloudComparison, alternatives: list[CloudAlternative]) -> list[str]:
    """Return how the count was determined, and the note of each machine."""
    notes = {
        cloud.machine: f"{cloud.machine}: {cloud.note}"
        for cloud in (comparison.cloud, *alternatives)
        if cloud.note
    }
    return [
        f"{comparison.cloud.count} x {comparison.cloud.machine}: {comparison.cloud.reason}",
        *notes.values(),
    ]


def _source_lines(comparison: RackCloudComparison) -> list[str]:
    price = comparison.cloud.price
    return [
        comparison.rack.cost.figure_sources_text,
        f"{comparison.cloud.machine}: as of {price.as_of or 'unknown'}, {price.source}",
    ]
