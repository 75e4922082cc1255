"""Collect what a report shows: from the registry in use, and from a cost difference kept as a file."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, StrictStr

from gpufleet import boundary
from gpufleet.boundary import ENGINE_DOCUMENT, NotJsonError, decode_json, read_bytes, validate_with_pydantic
from gpufleet.console.report import FleetReportData, render_report_page
from gpufleet.errors import InputError
from gpufleet.nodes import Node
from gpufleet.operations import burnin, node_view


def write_fleet_report(target: Path, stack: str, cost_diff_file: Path | None) -> FleetReportData:
    """Write the report page to ``target`` in one go and return what it was made of."""
    data = collect_report_data(stack, cost_diff_file)
    if not target.parent.is_dir():
        raise InputError("no such folder", where=str(target), remedy="name a file in a folder that exists")
    boundary.write_text(target, render_report_page(data))
    return data


def collect_report_data(stack: str, cost_diff_file: Path | None) -> FleetReportData:
    """Return nodes, holds, reachability and burn-in from the registry, and the change from its file."""
    change = read_cost_diff(cost_diff_file) if cost_diff_file else None
    with node_view.open_existing_registry() as registry:
        listed = registry.list_nodes()
    check_stack_has_nodes(stack, listed)
    return FleetReportData(
        stack=stack,
        written_at=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        nodes=[build_node_json(node) for node in listed],
        reports=burnin.load_newest_reports(),
        change=change,
        rehearsal=bool(os.environ.get("GPUFLEET_REHEARSAL")),
    )


def check_stack_has_nodes(stack: str, nodes: Iterable[Node]) -> None:
    """Raise InputError if no node of the registry belongs to the stack."""
    known_stacks = {node.stack for node in nodes if node.stack}
    if stack not in known_stacks:
        remedy = f"gpufleet nodes sync -s {stack}; stacks in the registry: {', '.join(sorted(known_stacks)) or 'none'}"
        raise InputError(f"no node of stack {stack!r}", where="--stack", remedy=remedy)


def build_node_json(node: Node) -> dict[str, Any]:
    """Return the node's JSON with the reasons of its holds and of its unreachability."""
    holds = [{"kind": hold.kind, "reason": hold.reason} for hold in node.holds]
    return node.as_json() | {"holds": holds, "reachable_detail": node.reachable_detail}


def read_cost_diff(path: Path) -> dict[str, Any]:
    """Read a ``cost diff --format json`` file; InputError where it is something else."""
    try:
        change = decode_json(read_bytes(path, ENGINE_DOCUMENT), str(path), ENGINE_DOCUMENT)
    except NotJsonError:
        raise InputError(
            "is not JSON", where=str(path), remedy="give gpufleet cost diff --format json"
        ) from None
    if not isinstance(change, dict) or not {"before", "after", "change", "resources"} <= change.keys():
        raise InputError(
            "the file is not a cost difference",
            where=str(path),
            remedy="give gpufleet cost diff --format json",
        )
    validate_with_pydantic(CostChange, change, str(path))
    return change


class CostTotal(BaseModel):
    """One side of a change; the values that the page shows."""

    model_config = ConfigDict(strict=True)

    usd_per_month: float | None
    usd_per_month_low: float | None
    usd_per_month_high: float | None


class CostDifference(BaseModel):
    """After minus before."""

    model_config = ConfigDict(strict=True)

    usd_per_month: float | None
    percent: float | None


class CostLine(BaseModel):
    """A priced component."""

    model_config = ConfigDict(strict=True)

    name: StrictStr
    type: StrictStr
    component: StrictStr = ""
    pool: StrictStr = ""
    hours_per_month: float
    purchase: StrictStr | None = None
    before_usd_per_hour: float | None
    after_usd_per_hour: float | None
    price: dict[str, Any] | None = None


class UnpricedLine(BaseModel):
    """A component without a price, or one that bills by use of an unknown amount."""

    urn: StrictStr
    type: StrictStr
    reason: StrictStr


class CostChange(BaseModel):
    """A cost difference as far as the page shows it."""

    model_config = ConfigDict(strict=True)

    before: CostTotal
    after: CostTotal
    change: CostDifference
    resources: list[CostLine]
    unpriced: list[UnpricedLine] = Field(default_factory=list)
    usage: list[UnpricedLine] = Field(default_factory=list)
