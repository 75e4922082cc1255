"""Judge at this site: by the shipped thresholds, and by the project's file of overrides if there is one."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gpufleet import paths
from gpufleet.boundary import read_text
from gpufleet.burnin import BurninReport, ThresholdOverride, judge_attempt, observe_parts
from gpufleet.errors import InputError
from gpufleet.nodes import PartObservation

OVERRIDE_FILE = "burn-in-thresholds.yaml"


def find_override_file() -> Path | None:
    """Return the file of overrides next to Pulumi.yaml; None outside a project and where there is none."""
    try:
        path = paths.find_project_root() / OVERRIDE_FILE
    except InputError:
        return None
    return path if path.exists() or path.is_symlink() else None


def load_site_overrides() -> tuple[ThresholdOverride, ...]:
    """Return the site's overrides; InputError for a file that is not right: nothing is judged by half of it."""
    path = find_override_file()
    if path is None:
        return ()
    from gpufleet.burnin.override_file import parse_overrides  # its reader takes longer than a quick question

    return parse_overrides(read_text(path), path.name)


def judge_at_site(
    records: Iterable[Any],
    node_kind: str,
    profile: str,
    rehearsal: bool = False,
    *,
    is_configured: bool | None = None,
    node: str = "",
) -> BurninReport:
    """Judge an attempt's records as this site does."""
    overrides = load_site_overrides()
    return judge_attempt(
        records, node_kind, profile, rehearsal, is_configured=is_configured, node=node, overrides=overrides
    )


def observe_parts_at_site(
    records: Iterable[Any], node_kind: str, report: BurninReport, *, rehearsal: bool
) -> PartObservation:
    """Return the parts and their faults in an attempt's records, by the rules that judged its report."""
    return observe_parts(records, node_kind, report, rehearsal=rehearsal, overrides=load_site_overrides())
