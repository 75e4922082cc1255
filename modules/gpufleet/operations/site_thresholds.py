"""Judge at this site: by what is shipped, and by the site's own files if there are any."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gpufleet.burnin import (
    BurninReport,
    build_agent_zipapp,
    judge_attempt,
    observe_parts,
)
from gpufleet.burnin.event_history import build_event_history
from gpufleet.burnin.site_card import SiteCards
from gpufleet.burnin.xid_rule import EventHistory, PartRepair
from gpufleet.nodes import Node, PartObservation, build_expected_hardware
from gpufleet.operations.site_file import (
    load_recorded_rules,
    load_site_cards,
    load_site_kernel_rules,
    load_site_overrides,
)


def build_site_history(
    records: Sequence[Any], earlier: Sequence[Sequence[Any]] = (), repairs: Iterable[PartRepair] = ()
) -> EventHistory:
    """Return what the rules over time need beside an attempt's records, as this site judges."""
    return build_event_history(
        records, earlier, repairs, record_only=load_recorded_rules(), kernel_rules=load_site_kernel_rules()
    )


def build_site_agent(path: Path) -> Path:
    """Write the agent to ``path`` with the site's rules of the kernel log; return the path."""
    return build_agent_zipapp(path, load_site_kernel_rules())


def judge_at_site(
    records: Sequence[Any],
    node_kind: str,
    profile: str,
    rehearsal: bool = False,
    *,
    is_configured: bool | None = None,
    node: str = "",
    expected: Mapping[str, Any] = MappingProxyType({}),
    history: EventHistory | None = None,
) -> BurninReport:
    """Judge an attempt's records as this site does; ``expected`` is the hardware that the registry declares."""
    return judge_attempt(
        records,
        node_kind,
        profile,
        rehearsal,
        is_configured=is_configured,
        node=node,
        overrides=load_site_overrides(),
        expected=expected,
        kernel_rules=load_site_kernel_rules(),
        history=history or build_site_history(records),
        cards=SiteCards(load_site_cards()),
    )


def judge_node_at_site(
    node: Node,
    records: Sequence[Any],
    profile: str,
    *,
    rehearsal: bool,
    is_configured: bool | None,
    history: EventHistory | None = None,
) -> BurninReport:
    """Judge an attempt of a registered node."""
    return judge_at_site(
        records,
        node.kind,
        profile,
        rehearsal,
        is_configured=is_configured,
        node=node.name,
        expected=build_expected_hardware(node),
        history=history,
    )


def describe_verdict(report: BurninReport, *, rehearsal: bool) -> str:
    """Return why a report has its verdict, worst first; in a rehearsal also that its hosts have no GPU."""
    is_without_gpu = rehearsal and any(
        check.outcome == "not_run" and check.name in report.required and check.name.startswith("gpu_")
        for check in report.checks
    )
    notes = ["a rehearsed host has no GPU"] if is_without_gpu else []
    return "; ".join([*notes, *report.list_unhealthy_reasons()[:3]]) or "every required check passed"


def observe_parts_at_site(
    node: Node,
    records: Sequence[Any],
    report: BurninReport,
    *,
    rehearsal: bool,
    history: EventHistory | None = None,
) -> PartObservation:
    """Return the parts and their faults in an attempt's records, by the rules that judged its report."""
    return observe_parts(
        records,
        node.kind,
        report,
        rehearsal=rehearsal,
        overrides=load_site_overrides(),
        expected=build_expected_hardware(node),
        kernel_rules=load_site_kernel_rules(),
        history=history or build_site_history(records),
        cards=SiteCards(load_site_cards()),
    )
