"""Nodes as tables, and one node in detail, as text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from gpufleet.boundary.name_range import fold_names_to_ranges
from gpufleet.nodes import STATES, Node
from gpufleet.text_table import align_columns

COLUMNS = (
    "NODE",
    "STATE",
    "HOLDS",
    "REACHABLE",
    "WHERE",
    "MACHINE",
    "ACCELERATORS",
    "ADDRESS",
    "USD/H",
    "WHY",
)
WIDEST = 48
FOUR_DIGITS = 10_000
OWN_CELLS = ("NODE", "WHERE", "ADDRESS")


def format_nodes_by_state(nodes: Sequence[Node]) -> list[str]:
    """Return a line for each state with its nodes as ranges, in the order of a node's life."""
    by_state: dict[str, list[str]] = defaultdict(list)
    for node in nodes:
        by_state[node.state].append(node.name)
    return [
        f"{s:<14}{len(by_state[s]):>5}  {fold_names_to_ranges(by_state[s])}" for s in STATES if s in by_state
    ]


def format_node_table(nodes: Sequence[Node], *, folds_equal_rows: bool = False) -> list[str]:
    """Return the nodes as aligned columns under a heading; equal neighbours of a rack or pool may share a row."""
    rows = [_node_row(node) for node in nodes]
    if folds_equal_rows:
        groups = groupby(zip(nodes, rows, strict=True), key=lambda pair: _shared_cells(*pair))
        rows = [_fold_rows([row for _, row in group]) for _, group in groups]
    return align_columns(COLUMNS, rows)


def _shared_cells(node: Node, row: tuple[str, ...]) -> tuple[str | None, ...]:
    """Return what nodes of one row have in common: all but name, slot and address."""
    return (
        node.rack,
        node.pool,
        *(cell for name, cell in zip(COLUMNS, row, strict=True) if name not in OWN_CELLS),
    )


def _fold_rows(rows: list[tuple[str, ...]]) -> tuple[str, ...]:
    """Return one row: names as a range, slots and addresses from the first to the last."""
    if len(rows) == 1:
        return rows[0]
    first, last = (dict(zip(COLUMNS, rows[index], strict=True)) for index in (0, -1))
    spans = {name: f"{first[name]} … {last[name]}" for name in OWN_CELLS if first[name] != last[name]}
    return tuple({**first, **spans, "NODE": fold_names_to_ranges([row[0] for row in rows])}.values())


def _node_row(node: Node) -> tuple[str, ...]:
    cards = ", ".join(f"{card['count']}x {card['model']}" for card in node.accelerators)
    price = "-" if node.usd_per_hour is None else f"{node.usd_per_hour:.4g}"
    state = f"{node.state} (missing)" if node.is_missing else node.state
    holds = ",".join(hold.kind for hold in node.holds) or "-"
    where = (
        f"{node.rack}/{node.slot}" if node.rack else " ".join(filter(None, (node.cloud, node.region))) or "-"
    )
    return (
        node.name,
        state,
        holds,
        format_reachability(node),
        where,
        node.machine or "-",
        cards or "-",
        node.address or "-",
        price,
        node.why,
    )


def format_reachability(node: Node) -> str:
    """Return ``yes``, ``no``, or ``-`` for a node that was not probed yet."""
    return {None: "-", True: "yes", False: "no"}[node.reachable]


def format_node_details(details: dict[str, Any]) -> list[str]:
    head = ("id", "kind", "state", "state_reason", "state_since", "reachable", "reachable_detail", "address")
    lines = [
        str(details["name"]),
        *(f"  {key:<18}{details[key]}" for key in head if details[key] is not None),
    ]
    lines += [f"  hold              {kind}: {reason}" for kind, reason in details["hold_reasons"].items()]
    lines += [f"  conflict          {detail}" for detail in details["conflicts"]]
    lines += [f"  evidence          {format_evidence(row)}" for row in details.get("evidence", ())]
    lines += [
        f"  next step         {fault['next_step']} ({part['kind']} {part['serial'] or part['uuid']}: {fault['fault']})"
        for part in details.get("repairs", ())
        for fault in part["faults"]
    ]
    rows = [(v["key"], format_value(v["value"]), v["source"], v["age"]) for v in details["values"]]
    widths = [min(max((len(row[i]) for row in rows), default=0), WIDEST) for i in range(3)]
    return lines + [
        f"    {key:<{widths[0]}}  {value:<{widths[1]}}  {source:<{widths[2]}}  {old} ago"
        for key, value, source, old in rows
    ]


def format_value(value: object) -> str:
    """Return a recorded value for people: figures to four digits, ``key=value`` of a mapping."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "-"}[value]
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < FOUR_DIGITS else f"{value:,.0f}"
    if isinstance(value, dict):
        return ", ".join(f"{key}={format_value(each)}" for key, each in value.items()) or "-"
    if isinstance(value, list):
        return ", ".join(map(format_value, value)) or "-"
    return str(value)


def format_evidence(row: dict[str, Any]) -> str:
    """Return why a node is out of use: check, reading, threshold and record, or a person's reason."""
    if row["name"] is None:
        return f"{row['reason']} (by {row['by'] or 'unknown'}, {row['at']})"
    measured = "" if row["measured"] is None else f" {format_value(row['measured'])} {row['unit']}".rstrip()
    threshold = "" if row["threshold"] is None else f", threshold {row['threshold']}"
    origin = f"record {row['record']}, sha256 {row['sha256'][:12]}, attempt {row['attempt']}"
    return f"{row['name']}{measured}{threshold}: {row['reason']} [{origin}]"


def format_history_entry(change: dict[str, Any]) -> str:
    """Return a line of history as text."""
    moved = f"{change['from'] or '(new)'} -> {change['to']}" if change["to"] else change["event"]
    attempt = f"  [{change['attempt']}]" if change["attempt"] else ""
    actor = f"  by {change['by']}" if change["by"] else ""
    return f"{change['at']}  {moved:<28}  {change['reason']}{attempt}{actor}"
