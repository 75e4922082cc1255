"""Estimates and differences by their source: a program, a preview, an event log, a state."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpufleet.boundary import make_printable, read_text
from gpufleet.cost.inputs.default_region import DefaultRegions, find_default_regions, region_variables
from gpufleet.cost.inputs.esc import find_environment_change, warn_about_environments
from gpufleet.cost.inputs.gate_file import (
    GateFileReader,
    list_changed_files,
    refuse_links_in_repository,
    refuse_tracked_price_store,
)
from gpufleet.cost.inputs.ignored_change import settle_like_engine
from gpufleet.cost.inputs.program.evaluation import (
    TIME_LIMIT_S,
    start_git_ref_comparison,
    start_program_evaluation,
)
from gpufleet.cost.inputs.program.stack_program import StackProgram
from gpufleet.cost.inputs.stack_change import (
    StackChange,
    change_from_events,
    change_from_preview,
    resources_from_state,
)
from gpufleet.cost.inputs.stack_file import find_compared_stack_file
from gpufleet.engine import EventLogPhase
from gpufleet.errors import EnvironmentFault, InputError
from gpufleet.paths import find_price_store_file
from gpufleet.progress import report_step

if TYPE_CHECKING:
    from datetime import date

    from gpufleet.cost.analysis.combined import CombinedDiff, ProjectDiff
    from gpufleet.cost.analysis.diff import CostDiff
    from gpufleet.cost.analysis.estimate import CostEstimate
    from gpufleet.cost.analysis.policy import CostPolicy
    from gpufleet.cost.analysis.price_date import PriceDates
    from gpufleet.cost.inputs.project_list import ProjectEntry, ProjectList
    from gpufleet.cost.inputs.usage import UsageFile
    from gpufleet.cost.pricing.commitments.model import Commitment
    from gpufleet.fleet import Fleet, MonthlyBudget


@dataclass(frozen=True)
class CostOptions:
    """Options of an estimate or a difference.

    ``limit_s`` bounds the evaluation of a program. ``dates`` gives before and after prices of different days.
    ``regions`` are those of ``--region``, by cloud. A ``trusted`` program gets the whole environment, the network
    and every file; one that ``may_be_unconfined`` is also run where it cannot be confined.
    ``today`` is the day of commitments, reservations and support if it is not the current day.
    """

    policy: CostPolicy | None = None
    usage: UsageFile | None = None
    limit_s: float = TIME_LIMIT_S
    commitments: tuple[Commitment, ...] = ()
    dates: PriceDates | None = None
    trusted: bool = False
    regions: DefaultRegions = field(default_factory=dict)
    today: date | None = None
    may_be_unconfined: bool = False
    warnings: tuple[str, ...] = ()  # of the report, about the files that the options were read from


DEFAULT_OPTIONS = CostOptions()
REMOVED_FROM_LIST = "is not in the list any more: what it cost is not in this report"


def estimate_stack(
    root: Path, stack: str, config_file: Path | None = None, options: CostOptions = DEFAULT_OPTIONS
) -> CostEstimate:
    """Evaluate a stack of any project in the working tree, and price it."""
    with start_program_evaluation([_make_program(root, stack, config_file, options)], options.limit_s) as run:
        fleet = _load_fleet(root, stack, config_file)
        warn_about_environments(root, stack, config_file)
        report_step("evaluating the program")
        from gpufleet.cost.analysis.estimate import estimate

        return estimate(
            run()[0],
            fleet,
            stack=stack,
            usage=options.usage,
            commitments=options.commitments,
            today=options.today,
            regions=find_default_regions(options.regions, os.environ, root, stack, config_file=config_file),
        )


def estimate_exported_state(
    document: Mapping[str, Any], options: CostOptions = DEFAULT_OPTIONS
) -> CostEstimate:
    """Price the deployed resources of a ``pulumi stack export``."""
    from gpufleet.cost.analysis.estimate import estimate

    resources = resources_from_state(document)
    stack = _stack_name(r.urn for r in resources)
    return estimate(
        resources,
        stack=stack,
        usage=options.usage,
        commitments=options.commitments,
        today=options.today,
        regions=find_default_regions(options.regions, os.environ),
    )


def diff_stack_against_git_ref(
    root: Path, stack: str, base: str, config_file: Path | None = None, options: CostOptions = DEFAULT_OPTIONS
) -> CostDiff:
    """Compare a stack in the working tree with itself at a git ref."""
    variables = region_variables(options.regions)
    refuse_links_in_repository(root, config_file)
    refuse_tracked_price_store(find_price_store_file())
    gate = GateFileReader(root, base)
    stack_file = find_compared_stack_file(gate, root, stack, config_file)
    config_file = stack_file.config_file
    with (
        pause_garbage_collection(),
        start_git_ref_comparison(
            root,
            stack,
            base,
            config_file,
            options.limit_s,
            trusted=options.trusted,
            may_be_unconfined=options.may_be_unconfined,
            variables=variables,
            base_config=stack_file.base_config,
        ) as run,
    ):
        fleet = _load_fleet(root, stack, config_file)
        budget = _find_budget(gate, root, stack, config_file, fleet)
        report_step(f"evaluating the program here and at {make_printable(base)}")
        before, after, warnings = settle_like_engine(*run())
        report_step("pricing the change")
        changed = list_changed_files(root, gate.repository.commit) if gate.repository else frozenset()
        environment_change = find_environment_change(gate, stack_file)
        warnings = [*gate.warnings, *warnings]
        change = StackChange(
            stack=stack,
            warnings=tuple(warnings),
            changed_files=changed | stack_file.list_changes(),
            missing_changes=environment_change,
        )
        return _diff_change(before, after, change, fleet, options, root, config_file, budget)


def load_gate_policy(path: Path, gate: GateFileReader, *, is_named_by_branch: bool = False) -> CostPolicy:
    """Return a policy as it decides a comparison.

    The limits of one that only the branch has, or that only its list names, apply. What it allows does not yet.
    """
    from gpufleet.cost.analysis.policy import load_policy, without_allowances

    file = gate.read_limits(path)
    policy = load_policy(path, file.text)
    if not file.is_new and not is_named_by_branch:
        return policy
    strict = without_allowances(policy)
    allowances = "" if strict == policy else ", its unknown_change when it is merged"
    problem = f"is not in {gate.base}" if file.is_new else f"is not the policy of the list at {gate.base}"
    gate.warn(f"{make_printable(path.name)} {problem}: its limits apply now{allowances}")
    return strict


def diff_projects_against_git_ref(
    projects: ProjectList, base: str, options: CostOptions = DEFAULT_OPTIONS
) -> CombinedDiff:
    """Compare every project of a list in the working tree with itself at a git ref.

    The policy of the options, else that of the list, applies to all together.
    """
    from gpufleet.cost.analysis.combined import combine_diffs
    from gpufleet.cost.analysis.unknown_change import describe_unlisted_change
    from gpufleet.cost.inputs.project_list import find_removed_projects, with_gate_files_of_base

    gate = GateFileReader(projects.file.absolute().parent if projects.file else None, base)
    projects = with_gate_files_of_base(projects, gate)
    policy = options.policy
    if policy is None and projects.policy:
        policy = load_gate_policy(projects.policy, gate, is_named_by_branch=projects.is_policy_new)
    part_options = replace(options, policy=None, warnings=())
    diffs = [_diff_project(entry, base, part_options, gate) for entry in projects.projects]
    removed = find_removed_projects(projects, gate)
    warnings = [f"{name} {REMOVED_FROM_LIST}" for name in removed]
    return combine_diffs(
        projects.name,
        diffs,
        policy,
        warnings=(*options.warnings, *gate.warnings, *warnings),
        unknown_changes=tuple(describe_unlisted_change(f"{name} {REMOVED_FROM_LIST}") for name in removed),
    )


def _diff_project(entry: ProjectEntry, base: str, options: CostOptions, gate: GateFileReader) -> ProjectDiff:
    """Compare one project; an error names it."""
    from gpufleet.cost.analysis.combined import ProjectDiff
    from gpufleet.cost.inputs.usage import load_usage_file

    try:
        own_options = options
        if entry.usage and not (file := gate.read(entry.usage)).is_new:
            own_options = replace(options, usage=load_usage_file(entry.usage, file.text))
        diff = diff_stack_against_git_ref(entry.root, entry.stack, base, entry.config_file, own_options)
    except InputError as error:
        where = f"project {entry.name}: {error.where}" if error.where else f"project {entry.name}"
        raise InputError(error.problem, where=where, key=error.key, remedy=error.remedy) from None
    except EnvironmentFault as error:
        raise EnvironmentFault(f"project {entry.name}: {error}", hint=error.hint) from None
    return ProjectDiff(entry.name, diff)


def diff_stack_between_price_dates(
    root: Path, stack: str, config_file: Path | None = None, options: CostOptions = DEFAULT_OPTIONS
) -> CostDiff:
    """Compare a stack at the prices of two days; the code is the same."""
    with start_program_evaluation([_make_program(root, stack, config_file, options)], options.limit_s) as run:
        fleet = _load_fleet(root, stack, config_file)
        resources = run()[0]
    return _diff_change(resources, resources, StackChange(stack=stack), fleet, options, root, config_file)


def diff_stack_against_state(
    document: Mapping[str, Any],
    root: Path,
    stack: str,
    config_file: Path | None = None,
    options: CostOptions = DEFAULT_OPTIONS,
) -> CostDiff:
    """Compare the deployed resources with those that the program in the working tree declares."""
    with start_program_evaluation([_make_program(root, stack, config_file, options)], options.limit_s) as run:
        fleet = _load_fleet(root, stack, config_file)
        before, after, warnings = settle_like_engine(resources_from_state(document), run()[0])
    deployed = _stack_name(r.urn for r in before)
    if deployed and deployed != stack:
        raise InputError(f"the state belongs to stack {deployed!r}, not {stack!r}", where="--state")
    change = StackChange(stack=stack, warnings=tuple(warnings), is_deployed_before=True)
    return _diff_change(before, after, change, fleet, options, root, config_file)


def diff_from_preview(
    document: Mapping[str, Any], root: Path | None = None, options: CostOptions = DEFAULT_OPTIONS
) -> CostDiff:
    """Compare before and after of an engine's preview, with the budget of the previewed stack."""
    with pause_garbage_collection():
        change = change_from_preview(document)
        return _diff_change(
            change.before, change.after, change, _load_previewed_fleet(root, change.stack), options, root
        )


def diff_from_event_log(
    events: EventLogPhase, root: Path | None = None, options: CostOptions = DEFAULT_OPTIONS
) -> CostDiff:
    """Compare before and after of an engine's event log."""
    with pause_garbage_collection():
        change = change_from_events(events)
        return _diff_change(
            change.before, change.after, change, _load_previewed_fleet(root, change.stack), options, root
        )


def diff_from_automation(
    events: Iterable[Any], result: Any = None, options: CostOptions = DEFAULT_OPTIONS
) -> CostDiff:
    """Compare before and after of an Automation API run: the events of ``on_event``, and its result."""
    from gpufleet.cost.inputs.automation import change_from_automation

    change = change_from_automation(events, result)
    return _diff_change(change.before, change.after, change, None, options)


@contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Switch the garbage collector off: all objects stay alive, and collecting took a third of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _make_program(root: Path, stack: str, config_file: Path | None, options: CostOptions) -> StackProgram:
    return StackProgram(
        root,
        stack,
        config_file,
        trusted=options.trusted,
        variables=region_variables(options.regions),
        may_be_unconfined=options.may_be_unconfined,
    )


def _diff_change(  # noqa: PLR0917 - in the order of a change's own steps
    before: Any,
    after: Any,
    change: StackChange,
    fleet: Fleet | None,
    options: CostOptions,
    root: Path | None = None,
    config_file: Path | None = None,
    compared_budget: MonthlyBudget | None = None,
) -> CostDiff:
    """Price a change; ``compared_budget`` is that of a comparison, in which a branch must not choose it."""
    from gpufleet.cost.analysis.estimate import diff

    project_name = _project_name(each.urn for each in (*before, *after))
    return diff(
        before,
        after,
        options.policy,
        change=replace(change, warnings=(*options.warnings, *change.warnings)),
        budget=compared_budget or (fleet.budget_usd_per_month if fleet else None),
        usage=options.usage,
        commitments=options.commitments,
        declared=fleet,
        dates=options.dates,
        today=options.today,
        regions=find_default_regions(
            options.regions, os.environ, root, change.stack, project_name, config_file
        ),
    )


def _stack_name(urns: Iterable[str]) -> str:
    return next((urn.split("::")[0].removeprefix("urn:pulumi:") for urn in urns), "")


def _project_name(urns: Iterable[str]) -> str:
    return next((urn.split("::")[1] for urn in urns), "")


def _load_fleet(root: Path, stack: str, config_file: Path | None) -> Fleet | None:
    """Return the fleet that a stack declares, None for a program without one.

    Called while the child imports the SDKs, so that the imports here take no time of their own.
    """
    import gpufleet.cost.analysis.estimate  # noqa: F401 - for what follows
    from gpufleet import fleet

    if not _declares_fleet(root, stack, config_file):
        return None
    return fleet.load_fleet(stack, root, config_file)


def _find_budget(
    gate: GateFileReader, root: Path, stack: str, config_file: Path | None, fleet: Fleet | None
) -> MonthlyBudget | None:
    """Return the stack's budget at the base of a comparison; the branch's if it declares none there.

    The warning about a changed stack file is about the budget alone: the rest of it is the change that is priced.
    """
    own = fleet.budget_usd_per_month if fleet else None
    budget = _read_base_budget(gate, root, stack, config_file)
    if budget is None and own is not None:
        gate.warn(f"the budget of {stack} is not in {gate.base}: it applies now")
    elif budget != own:
        gate.warn(f"this branch changes the budget of {stack}: that of the base applies")
    return budget or own


def _read_base_budget(
    gate: GateFileReader, root: Path, stack: str, config_file: Path | None
) -> MonthlyBudget | None:
    """Return the stack's budget at the base, wherever its file was there: the branch may have moved it."""
    name = f"Pulumi.{stack}.yaml"
    for path in (*([config_file] if config_file else ()), root / "stacks" / name, root / name):
        text = (gate.repository and gate.repository.read_at_base(path)) or ""
        if "budget_usd_per_month" not in text:
            continue
        from gpufleet.fleet import read_budget

        budget = read_budget(text, f"{path.name} at {gate.base}")
        if budget is not None:
            return budget
    return None


def _declares_fleet(root: Path, stack: str, config_file: Path | None) -> bool:
    """Return whether a stack declares a fleet; a missing stack counts where the project has a stacks/ folder."""
    paths = (
        [config_file]
        if config_file
        else [root / "stacks" / f"Pulumi.{stack}.yaml", root / f"Pulumi.{stack}.yaml"]
    )
    texts = [read_text(path) for path in paths if path.is_file()]
    return any("gpufleet:" in text for text in texts) if texts else (root / "stacks").is_dir()


def _load_previewed_fleet(root: Path | None, stack: str) -> Fleet | None:
    """Return the fleet of a previewed stack, None unless this project declares that stack."""
    if root is None or not stack:
        return None
    from gpufleet import fleet

    try:
        return fleet.load_fleet(stack, root)
    except InputError:
        return None  # the preview may come from another project
