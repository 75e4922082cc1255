"""The acceptance report of a fleet as one page that prints: verdict, reasons, results and their bounds."""

from __future__ import annotations

from typing import Any

from gpufleet.boundary import Json
from gpufleet.boundary.name_range import fold_names_to_ranges
from gpufleet.page import render_page

MAX_ROWS = 500
TONES = {
    "accepted": "good", "accepted_with_reservations": "warn", "not_accepted": "bad",
    "reservation": "warn", "rejected": "bad",
}  # fmt: skip


def render_acceptance_page(document: Json) -> str:
    """Return the page of a document whose texts are printable already."""
    by_status: dict[str, list[Json]] = {"rejected": [], "reservation": [], "accepted": []}
    for node in document["nodes"]:
        by_status[node["status"]].append(node)
    return render_page(
        "console/templates/acceptance.html.j2",
        title="Acceptance of a fleet",
        document=document,
        sections=[
            ("Rejected", "rejections", by_status["rejected"]),
            ("Accepted with reservations", "reservations", by_status["reservation"]),
        ],
        accepted=fold_names_to_ranges([node["name"] for node in by_status["accepted"]]),
        measured=[row for row in document["checks"] if row["pass"] + row["warn"] + row["fail"]],
        idle=list_idle_checks(document["checks"]),
        versions=group_versions(document["versions"]),
        max_rows=MAX_ROWS,
        tones=TONES,
        rehearsal=document["rehearsal"],
        number=format_number,
        place=format_place,
    )


def list_idle_checks(rows: list[Json]) -> str:
    """Return the checks that no node of a row ran, with the number of nodes."""
    idle = [row for row in rows if not row["pass"] + row["warn"] + row["fail"]]
    return ", ".join(f"{row['name']} ({row['not_run']})" for row in idle)


def group_versions(rows: list[Json]) -> list[tuple[str, str]]:
    """Return each part with its versions and the number of nodes of each."""
    groups: dict[str, list[str]] = {}
    for row in rows:
        groups.setdefault(row["part"], []).append(f"{row['version']} ({row['nodes']})")
    return [(part, ", ".join(versions)) for part, versions in groups.items()]


def format_number(value: Any) -> str:
    """Return a number of at most six digits; a text as it is, nothing as an empty text."""
    return "" if value is None else f"{value:.6g}" if isinstance(value, int | float) else str(value)


def format_place(node: Json) -> str:
    """Return where a node is: rack and slot, or pool."""
    parts = [str(node[key]) for key in ("rack", "slot") if node.get(key)] or [str(node.get("pool") or "")]
    return " / ".join(parts)
