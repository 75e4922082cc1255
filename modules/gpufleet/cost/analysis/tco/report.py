"""The answer as JSON and for a terminal."""

from __future__ import annotations

from typing import Any

from gpufleet.cost.analysis.reports.table import grid, section
from gpufleet.cost.analysis.tco.cloud import HOURS, Cloud
from gpufleet.cost.analysis.tco.comparison import Comparison
from gpufleet.cost.analysis.tco.rack import Own
from gpufleet.cost.analysis.tco.sensitivity import cases
from gpufleet.cost.formatting import rate, usd
from gpufleet.cost.money import to_decimal


def document(of: Comparison, others: list[Cloud]) -> dict[str, Any]:
    """Return the comparison, its figures and their sources."""
    own, cloud = of.own, of.cloud
    return {
        "rack": own.name,
        "own": {
            "machine": own.machine, "nodes": own.nodes, "cores": own.cores, "memory_gib": own.memory_gib,
            "capital_usd": round(own.capital_usd, 2), "residual_usd": round(own.residual_usd, 2),
            "months": own.months, "usd_per_hour": round(own.usd_per_month / HOURS, 6),
            "usd_per_month": round(own.usd_per_month, 2),
            "usd_per_node_month": round(own.usd_per_month / own.nodes, 4),
            "usd_per_core_month": round(own.usd_per_month / own.cores, 4),
            "parts_usd_per_month": {part: round(money, 4) for part, money in own.parts_per_month.items()},
            "left_out": list(own.cost.missing_parts), "assumptions": list(own.cost.assumptions),
            "source": own.cost.source,
        },
        "cloud": {**_cloud(cloud, of.utilisation), "utilisation": of.utilisation, "because": cloud.because},
        "break_even_month": _rounded(of.break_even_month),
        "within_life": of.within_life,
        "break_even_utilisation": _rounded(of.break_even_utilisation),
        "saved_usd_per_month": round(of.saved_usd_per_month, 2),
        "sensitivity": [
            {
                "figure": case.figure, "value": case.value,
                "break_even_month": _rounded(case.comparison.break_even_month),
                "break_even_utilisation": _rounded(case.comparison.break_even_utilisation),
                "saved_usd_per_month": round(case.comparison.saved_usd_per_month, 2),
            }
            for case in cases(of)
        ],
        "others": [_cloud(other, of.utilisation) for other in others],
    }  # fmt: skip


def _cloud(of: Cloud, utilisation: float) -> dict[str, Any]:
    price = of.price
    return {
        "machine": of.machine,
        "region": of.region,
        "purchase": of.purchase,
        "count": of.count,
        "usd_per_month": round(of.usd_per_month(utilisation), 2),
        "storage_usd_per_month": round(of.storage_usd_per_month, 2),
        "price": {"usd_per_hour": price.usd_per_hour, "as_of": price.as_of, "source": price.source},
        "note": of.note,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _usd(amount: float) -> str:
    return usd(to_decimal(repr(round(amount, 6))))


def headline(of: Comparison) -> str:
    """Say in one sentence when the rack has paid for itself."""
    cloud = (
        f"{of.cloud.count} x {of.cloud.machine} in {of.cloud.region} ({of.cloud.purchase.replace('_', ' ')})"
    )
    month = of.break_even_month
    if month is None:
        return f"{of.own.name} never pays for itself against {cloud}: its running costs alone are higher"
    if not of.within_life:
        return f"{of.own.name} would pay for itself against {cloud} in month {month:.1f}, after its {of.own.months:g}"
    return f"{of.own.name} has paid for itself against {cloud} in month {month:.1f} of {of.own.months:g}"


def table(of: Comparison, others: list[Cloud]) -> str:
    """Write the answer, the figures behind it, other machines and what moves it."""
    return "\n".join(
        [
            headline(of),
            *_answers(of),
            "",
            *_costs(of.own),
            "",
            *_clouds([of.cloud, *(other for other in others if other.machine != of.cloud.machine)], of),
            "",
            *_sensitivity(of),
            *section("Not in the rack's figure", _left_out(of)),
            *section("Assumptions, not measured", [", ".join(of.own.cost.assumptions)]),
            *section("Remarks", _remarks(of, others)),
            *section("Sources", _sources(of)),
        ]
    )


def _answers(of: Comparison) -> list[str]:
    share = of.break_even_utilisation
    said = "the cloud bills all month whatever runs"
    if share is not None:
        said = f"cheaper where the cloud would run more than {share:.1%} of the time"
    if share == 0:
        said = f"cheaper at any use: disks alone cost {_usd(of.cloud.storage_usd_per_month)} a month to rent"
    own, cloud = _usd(of.own.usd_per_month), _usd(of.cloud_usd_per_month)
    return [
        f"  {own} a month to own, {cloud} to rent at {of.utilisation:.0%} of the time; {said}",
        f"  over {of.own.months:g} months {_usd(of.own_total_usd)} to own, {_usd(of.cloud_total_usd)} to rent",
    ]


def _costs(own: Own) -> list[str]:
    def row(name: str, month: float) -> tuple[str, ...]:
        cells = (month / HOURS, month / HOURS / own.nodes, month / HOURS / own.cores)
        return (name, _usd(month), *(rate(to_decimal(repr(cell))) for cell in cells))

    rows = [row(part, month) for part, month in own.parts_per_month.items()]
    header = ("WHAT", "USD/MONTH", "USD/HOUR", "PER NODE", "PER CORE")
    return grid(header, [*rows, row("all", own.usd_per_month)])


def _clouds(clouds: list[Cloud], of: Comparison) -> list[str]:
    rows = []
    for cloud in clouds:
        month = Comparison(of.own, cloud, of.utilisation).break_even_month
        rows.append(
            (
                f"{cloud.count} x {cloud.machine}", cloud.region, cloud.purchase.replace("_", " "),
                rate(to_decimal(cloud.price.usd_per_hour)), _usd(cloud.usd_per_month(of.utilisation)),
                "never" if month is None else f"{month:.1f}",
            )
        )  # fmt: skip
    return grid(("WHAT", "REGION", "PURCHASE", "USD/HOUR", "USD/MONTH", "BREAK-EVEN MONTH"), rows)


def _sensitivity(of: Comparison) -> list[str]:
    rows = []
    for case in cases(of):
        month, share = case.comparison.break_even_month, case.comparison.break_even_utilisation
        rows.append(
            (
                case.figure, case.value, "never" if month is None else f"{month:.1f}",
                "-" if share is None else f"{share:.1%}", _usd(case.comparison.saved_usd_per_month),
            )
        )  # fmt: skip
    return grid(("WHAT", "VALUE", "BREAK-EVEN MONTH", "BREAK-EVEN USE", "SAVED/MONTH"), rows)


def _left_out(of: Comparison) -> list[str]:
    parts = of.own.cost.missing_parts
    if not parts:
        return []
    left = of.saved_usd_per_month
    told = f"{', '.join(parts)}: not declared in the rack file"
    return [f"{told}; up to {_usd(left)} a month of them leave the rack cheaper" if left > 0 else told]


def _remarks(of: Comparison, others: list[Cloud]) -> list[str]:
    """Return what the count rests on, and what is to know of each machine, once."""
    told = {cloud.machine: f"{cloud.machine}: {cloud.note}" for cloud in (of.cloud, *others) if cloud.note}
    return [f"{of.cloud.count} x {of.cloud.machine}: {of.cloud.because}", *told.values()]


def _sources(of: Comparison) -> list[str]:
    price = of.cloud.price
    return [of.own.cost.source, f"{of.cloud.machine}: as of {price.as_of or 'unknown'}, {price.source}"]
