"""Judge at this site: by the shipped thresholds, and by the project's file of overrides if there is one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from gpufleet import paths
from gpufleet.boundary import read_text
from gpufleet.burnin import (
    BurninReport,
    KernelRule,
    ThresholdOverride,
    build_agent_zipapp,
    judge_attempt,
    observe_parts,
)
from gpufleet.burnin.event_history import build_event_history
from gpufleet.burnin.site_card import SiteCards
from gpufleet.burnin.xid_rule import EventHistory, PartRepair
from gpufleet.errors import InputError, ProjectFileError
from gpufleet.nodes import Node, PartObservation, build_expected_hardware
from gpufleet.operations.site_cards import load_site_cards

Parsed = TypeVar("Parsed")


def find_site_file(name: str) -> Path | None:
    """Return a file of the site next to Pulumi.yaml; None outside a project and where there is none."""
    try:
        path = paths.find_project_root() / name
    except InputError:
        return None
    return path if path.exists() or path.is_symlink() else None


def load_site_overrides() -> tuple[ThresholdOverride, ...]:
    """Return the site's overrides; ProjectFileError for a file that is not right: nothing is judged by half of it."""
    path = find_site_file(paths.OVERRIDE_FILE)
    if path is None:
        return ()
    from gpufleet.burnin.override_file import parse_overrides  # its reader takes longer than a quick question

    return _parse_site_file(path, parse_overrides)


def load_recorded_rules() -> frozenset[str]:
    """Return the rules over time that the site only records; ProjectFileError for a file that is not right."""
    path = find_site_file(paths.RULE_FILE)
    if path is None:
        return frozenset()
    from gpufleet.burnin.rule_switch import parse_rule_switches  # as above

    return _parse_site_file(path, parse_rule_switches)


def _parse_site_file(path: Path, parse: Callable[[str, str], Parsed]) -> Parsed:
    try:
        return parse(read_text(path), path.name)
    except InputError as error:
        raise ProjectFileError(error.problem, where=error.where, key=error.key, remedy=error.remedy) from None


def load_site_kernel_rules() -> tuple[KernelRule, ...]:
    """Return the site's rules of the kernel log; ProjectFileError for a file that is not right."""
    path = find_site_file(paths.KERNEL_RULE_FILE)
    if path is None:
        return ()
    from gpufleet.burnin.kernel_rule_file import parse_kernel_rules

    return _parse_site_file(path, parse_kernel_rules)


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
