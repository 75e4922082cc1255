"""Judge at this site: by the shipped thresholds, and by the project's file of overrides if there is one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

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
from gpufleet.errors import InputError, ProjectFileError
from gpufleet.nodes import Node, PartObservation, build_expected_hardware


def find_site_file(name: str) -> Path | None:
    """Return a site's file next to Pulumi.yaml; None outside a project and where there is none."""
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

    try:
        return parse_overrides(read_text(path), path.name)
    except InputError as error:
        raise ProjectFileError(error.problem, where=error.where, key=error.key, remedy=error.remedy) from None


def load_site_kernel_rules() -> tuple[KernelRule, ...]:
    """Return the site's rules of the kernel log; ProjectFileError for a file that is not right."""
    path = find_site_file(paths.KERNEL_RULE_FILE)
    if path is None:
        return ()
    from gpufleet.burnin.kernel_rule_file import parse_kernel_rules

    try:
        return parse_kernel_rules(read_text(path), path.name)
    except InputError as error:
        raise ProjectFileError(error.problem, where=error.where, key=error.key, remedy=error.remedy) from None


def build_site_agent(path: Path) -> Path:
    """Write the agent to ``path`` with the site's rules of the kernel log; return the path."""
    return build_agent_zipapp(path, load_site_kernel_rules())


def judge_at_site(
    records: Iterable[Any],
    node_kind: str,
    profile: str,
    rehearsal: bool = False,
    *,
    is_configured: bool | None = None,
    node: str = "",
    expected: Mapping[str, Any] = MappingProxyType({}),
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
    )


def judge_node_at_site(
    node: Node, records: Iterable[Any], profile: str, *, rehearsal: bool, is_configured: bool | None
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
    )


def observe_parts_at_site(
    node: Node, records: Iterable[Any], report: BurninReport, *, rehearsal: bool
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
    )
