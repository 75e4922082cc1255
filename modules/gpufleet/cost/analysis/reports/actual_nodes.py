"""The registry's nodes beside a bill: the lines of the table, and JSON."""

from __future__ import annotations

from typing import Any

from gpufleet.cost.analysis.billed_node import (
    BilledNode,
    Namesake,
    NodeComparison,
    RegisteredNode,
    UnregisteredMachine,
)
from gpufleet.cost.analysis.reports.table import align_columns, format_titled_list
from gpufleet.cost.formatting import format_usd, round_for_json
from gpufleet.cost.money import ZERO, round_to_cents

MAX_LINES = 20


def format_node_lines(comparison: NodeComparison) -> list[str]:
    """Return the nodes by cost, what was wasted, and what either side does not know."""
    shown = comparison.billed[:MAX_LINES]
    rows = [
        (
            each.node.name,
            each.node.pool or "-",
            each.node.state,
            f"{each.hours:,.0f}" if each.hours else "-",
            format_usd(each.usd),
        )
        for each in shown
    ]
    table = align_columns(("NODE", "POOL", "STATE", "HOURS", "BILLED"), rows) if rows else []
    if rest := comparison.billed[MAX_LINES:]:
        table.append(f"{len(rest)} more nodes: {format_usd(sum((each.usd for each in rest), ZERO))}")
    wasted = [line for each in comparison.billed for line in _list_wasted(each)]
    title = f"Wasted, {format_usd(comparison.wasted_usd)}: billed while out of use"
    return [
        *(["", *table] if table else []),
        *format_titled_list(title, _shorten(wasted)),
        *format_titled_list(
            "Billed but not in the registry", _shorten(list(map(_format_machine, comparison.unregistered)))
        ),
        *format_titled_list(
            "Billed under a node's name in an account that may not be its own, and not counted for it",
            _shorten(list(map(_format_namesake, comparison.namesakes))),
        ),
        *format_titled_list(
            "In the registry but not billed", _shorten(list(map(_format_unbilled, comparison.unbilled)))
        ),
    ]


def _shorten(lines: list[str]) -> list[str]:
    return lines if len(lines) <= MAX_LINES else [*lines[:MAX_LINES], f"{len(lines) - MAX_LINES} more"]


def _list_wasted(each: BilledNode) -> list[str]:
    return [
        f"{each.node.name}: {format_usd(usd)} of {format_usd(each.usd)} in state {state}"
        for state, usd in sorted(each.wasted_usd.items())
        if round_to_cents(usd)
    ]


def _format_machine(machine: UnregisteredMachine) -> str:
    name = f" ({machine.name})" if machine.name and machine.name != machine.id else ""
    pool = f"pool {machine.pool}" if machine.pool else "no pool"
    hours = f", {machine.hours:,.0f} h" if machine.hours else ""
    known = ", declared by the stack: run nodes sync" if machine.is_declared else ""
    return f"{machine.id}{name}: {format_usd(machine.usd)}{hours}, {pool}{known}"


def _format_namesake(namesake: Namesake) -> str:
    billed, account = namesake.billed, namesake.account or "(no account in the row)"
    hours = f", {billed.hours:,.0f} h" if billed.hours else ""
    return f"{billed.node.name} in {account}: {format_usd(billed.usd)}{hours}"


def _format_unbilled(node: RegisteredNode) -> str:
    until = f" until {node.until:%Y-%m-%d}" if node.until else ""
    pool = f"pool {node.pool}, " if node.pool else ""
    return f"{node.name}: {pool}{node.state}, registered {node.since:%Y-%m-%d}{until}"


def build_node_document(comparison: NodeComparison) -> dict[str, Any]:
    """Return the comparison as JSON."""
    return {
        "wasted_usd": round_for_json(comparison.wasted_usd),
        "nodes": [
            {
                "name": each.node.name,
                "cloud": each.node.cloud,
                "pool": each.node.pool,
                "state": each.node.state,
                "hours": float(each.hours),
                "billed_usd": round_for_json(each.usd),
                "wasted": [
                    {"state": state, "usd": round_for_json(usd)}
                    for state, usd in sorted(each.wasted_usd.items())
                ],
            }
            for each in comparison.billed
        ],
        "unregistered": [
            {
                "machine": each.id,
                "name": each.name,
                "cloud": each.cloud,
                "pool": each.pool,
                "hours": float(each.hours),
                "billed_usd": round_for_json(each.usd),
                "declared": each.is_declared,
            }
            for each in comparison.unregistered
        ],
        "namesakes": [
            {
                "name": each.billed.node.name,
                "cloud": each.billed.node.cloud,
                "account": each.account,
                "hours": float(each.billed.hours),
                "billed_usd": round_for_json(each.billed.usd),
            }
            for each in comparison.namesakes
        ],
        "unbilled": [
            {
                "name": node.name,
                "cloud": node.cloud,
                "pool": node.pool,
                "state": node.state,
                "registered_at": node.since.isoformat(),
                "until": node.until and node.until.isoformat(),
            }
            for node in comparison.unbilled
        ],
    }
