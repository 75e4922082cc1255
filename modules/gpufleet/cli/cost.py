"""``gpufleet cost``: what the declared fleet costs, and what a change to it would cost."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gpufleet import cost, paths
from gpufleet.boundary import ENGINE_DOCUMENT, read_text, read_text_stream
from gpufleet.cli import completion, output
from gpufleet.cli.cost_price_date import add_price_date_options, parse_price_dates
from gpufleet.cli.cost_projects import write_projects_diff
from gpufleet.cli.group import LazyGroup
from gpufleet.cli.number import FiniteFloatRange
from gpufleet.cost import CostOptions
from gpufleet.cost.analysis.reports import DIFF_FORMATS, ESTIMATE_FORMATS
from gpufleet.cost.inputs.program.evaluation import TIME_LIMIT_S
from gpufleet.engine import add_source_to_errors, parse_engine_json, parse_last_phase_of_log
from gpufleet.errors import CheckFailed, InputError

if TYPE_CHECKING:
    from gpufleet.cost import CostDiff, CostEstimate
    from gpufleet.cost.analysis.diff import PolicyResult
    from gpufleet.cost.inputs.gate_file import GateFileReader

Verb = TypeVar("Verb", bound=Callable[..., Any])
COMMANDS_OF_OTHER_FILES = {
    "actual": ("cost_actual", "compare_actual_cost"),
    "breakeven": ("cost_purchase", "show_break_even_hours"),
    "budget": ("cost_budget", "budget_command"),
    "comment": ("cost_comment", "post_cost_comment"),
    "policy-pack": ("cost_pack", "export_policy_pack"),
    "tco": ("cost_tco", "tco_command"),
    "what-if": ("cost_purchase", "show_what_if_prices"),
}
STACK = click.option("-s", "--stack", help="The stack, as in stacks/Pulumi.STACK.yaml.")
CONFIG_FILE = click.option(
    "--config-file", type=click.Path(path_type=Path), help="Use this file instead of the stack's."
)
STATE = click.option(
    "--state", metavar="FILE", help="Read the output of `pulumi stack export`; - is standard input."
)
PROJECT = click.option(
    "--project",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Any Pulumi Python project; default: the current one.",
)
USAGE = click.option(
    "--usage",
    "usage_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Usage file: hours, group sizes, traffic.",
)
COMMITMENTS = click.option(
    "--commitments",
    "commitments_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Existing commitments; default: commitments.yaml next to Pulumi.yaml.",
)
TIME_LIMIT = click.option(
    "--time-limit",
    "limit_s",
    type=FiniteFloatRange(min=0, max=86_400, min_open=True),
    default=TIME_LIMIT_S,
    show_default=True,
    help="Time limit of the Pulumi program in seconds.",
)
SHOW_SKIPPED = click.option(
    "--show-skipped", is_flag=True, help="List the resources that cost nothing, with the reason."
)
TRUST = click.option(
    "--trust-program",
    "trusted",
    is_flag=True,
    help="Give the Pulumi program your environment, network and files.",
)
UNCONFINED = click.option(
    "--allow-unconfined",
    "may_be_unconfined",
    is_flag=True,
    help="Run the program also where this machine cannot confine it.",
)
REGION = click.option(
    "--region",
    "regions",
    multiple=True,
    metavar="[CLOUD=]REGION",
    help="Region of resources that name none; CLOUD is aws, gcp or azure. Can be repeated.",
)


def add_program_options(command: Verb) -> Verb:
    """Add the options for the evaluation of a program."""
    for option in (REGION, UNCONFINED, TRUST, TIME_LIMIT, COMMITMENTS, USAGE, PROJECT, CONFIG_FILE, STATE):
        command = option(command)
    return command


@click.group(cls=LazyGroup, lazy_commands=COMMANDS_OF_OTHER_FILES)
def cost_command() -> None:
    """Estimate the cost of the declared fleet and of changes, without engine or credentials."""


@cost_command.command("estimate")
@STACK
@add_program_options
@output.report_options(*ESTIMATE_FORMATS, has_format=True)
@SHOW_SKIPPED
def estimate_cost(
    *,
    report: output.ReportOutput,
    show_skipped: bool,
    usage_file: Path | None,
    commitments_file: Path | None,
    limit_s: float,
    trusted: bool,
    may_be_unconfined: bool,
    regions: tuple[str, ...],
    **source_options: Any,
) -> None:
    """Price a stack by pool: per hour, per month, range, budget, price sources."""
    from gpufleet.cost.inputs.default_region import parse_region_options
    from gpufleet.cost.inputs.gate_file import GateFileReader

    gate = GateFileReader(None, None)
    commitments = _commitments(commitments_file, source_options["project"], gate)
    result = _estimate(
        CostOptions(
            None,
            _usage(usage_file, gate),
            limit_s,
            commitments,
            trusted=trusted,
            regions=parse_region_options(regions),
            may_be_unconfined=may_be_unconfined,
        ),
        **source_options,
    )
    report.write(lambda name: cost.render_estimate(result, name, show_skipped=show_skipped))
    if "focus" in report.list_formats() and result.bill.unpriced_resources:
        count = len(result.bill.unpriced_resources)
        output.print_lines(f"items without a price, which are not in the CSV: {count}", err=True)


@cost_command.command("diff")
@STACK
@click.option("--base", metavar="GITREF", help="Compare the working tree with this commit, branch or tag.")
@click.option(
    "--projects",
    "projects_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Compare all projects of this list (gpufleet-cost.yaml) with --base, in one report.",
)
@click.option(
    "--preview", metavar="FILE", help="Read `pulumi preview --json --show-sames`; - is standard input."
)
@click.option(
    "--event-log",
    metavar="FILE",
    help="Read the output of `pulumi preview --event-log FILE`; - is standard input.",
)
@add_program_options
@add_price_date_options
@output.report_options(*DIFF_FORMATS, has_format=True)
@SHOW_SKIPPED
@click.option(
    "--policy",
    "policy_file",
    type=click.Path(path_type=Path),
    help="File with limits; exit code 1 if it breaks one, or if its cost is not known.",
)
def diff_cost(
    *,
    report: output.ReportOutput,
    show_skipped: bool,
    prices_before: datetime | None,
    prices_after: datetime | None,
    policy_file: Path | None,
    usage_file: Path | None,
    commitments_file: Path | None,
    limit_s: float,
    trusted: bool,
    may_be_unconfined: bool,
    projects_file: Path | None,
    regions: tuple[str, ...],
    **source_options: Any,
) -> None:
    """Price a change: the working tree against a git ref or a state, or a preview."""
    from gpufleet.cost.api import load_gate_policy
    from gpufleet.cost.inputs.default_region import parse_region_options
    from gpufleet.cost.inputs.gate_file import GateFileReader, refuse_links_in_repository

    base = source_options["base"]
    if base is not None:  # before a link to another project is followed
        refuse_links_in_repository(projects_file or source_options["project"] or Path())
    project = projects_file.absolute().parent if projects_file else _root(source_options["project"])
    gate = GateFileReader(project, base)
    policy = load_gate_policy(policy_file, gate) if policy_file else None
    days = parse_price_dates(prices_before, prices_after)
    if projects_file:
        source_options |= {"commitments": commitments_file, "usage": usage_file}
        verdict = write_projects_diff(
            projects_file,
            CostOptions(
                policy,
                limit_s=limit_s,
                dates=days,
                trusted=trusted,
                regions=parse_region_options(regions),
                may_be_unconfined=may_be_unconfined,
                warnings=tuple(gate.warnings),
            ),
            report,
            show_skipped=show_skipped,
            **source_options,
        )
    else:
        commitments = _commitments(commitments_file, source_options["project"], gate)
        options = CostOptions(
            policy,
            _usage(usage_file, gate),
            limit_s,
            commitments,
            days,
            trusted,
            parse_region_options(regions),
            may_be_unconfined=may_be_unconfined,
            warnings=tuple(gate.warnings),
        )
        cost_diff = _diff_source(options, **source_options)
        report.write(lambda name: cost.render_diff(cost_diff, name, show_skipped=show_skipped))
        verdict = cost_diff.policy
    _require_passed(verdict)


def _require_passed(verdict: PolicyResult) -> None:
    """Raise CheckFailed with the first violation of a policy, else with the first limit that is not decided."""
    if verdict.passed:
        return
    failures = (*verdict.violations, *verdict.undecided)
    more = f" and {len(failures) - 1} more" if len(failures) > 1 else ""
    kind = "policy violated: " if verdict.violations else ""
    remedy = "" if verdict.violations else "; to accept it: unknown_change in the policy (docs/cost-in-ci.md)"
    raise CheckFailed(f"{kind}{failures[0].rule}: {failures[0].message}{more}{remedy}")


def _estimate(
    options: CostOptions,
    *,
    stack: str | None,
    state: str | None,
    config_file: Path | None,
    project: Path | None,
) -> CostEstimate:
    if state is None:
        return cost.estimate_stack(
            paths.find_given_project(project), _require_stack(stack), config_file, options
        )
    if stack is not None or config_file is not None or project is not None:
        raise InputError("cannot be combined with --stack, --project or --config-file", where="--state")
    text, name = _read(state)
    with add_source_to_errors(name):
        return cost.estimate_exported_state(parse_engine_json(text, name), options)


def _diff_source(  # noqa: PLR0917 - click hands each option over by name
    options: CostOptions,
    stack: str | None,
    base: str | None,
    preview: str | None,
    event_log: str | None,
    state: str | None,
    config_file: Path | None,
    project: Path | None,
) -> CostDiff:
    sources = [source for source in (base, preview, event_log, state) if source is not None]
    if options.dates and not sources:
        return cost.diff_stack_between_price_dates(
            paths.find_given_project(project), _require_stack(stack), config_file, options
        )
    if len(sources) != 1:
        raise InputError(
            "give one of --base, --preview, --event-log and --state",
            where="cost diff",
            remedy="for example --base HEAD; or --prices-before and --prices-after to compare prices alone",
        )
    if base is not None:
        return cost.diff_stack_against_git_ref(
            paths.find_given_project(project), _require_stack(stack), base, config_file, options
        )
    if state is not None:
        text, name = _read(state)
        document = parse_engine_json(text, name)
        with add_source_to_errors(name):
            return cost.diff_stack_against_state(
                document, paths.find_given_project(project), _require_stack(stack), config_file, options
            )
    if config_file is not None:
        raise InputError(
            "needs --base or --state",
            where="--config-file",
            remedy="run `pulumi preview --config-file` and give --preview",
        )
    if preview is not None:
        text, name = _read(preview)
        with add_source_to_errors(name):
            return cost.diff_from_preview(parse_engine_json(text, name), _root(project), options)
    return cost.diff_from_event_log(parse_last_phase_of_log(*_read(str(event_log))), _root(project), options)


def _read(file: str) -> tuple[str, str]:
    """Return a file's text and its name in errors; - is standard input."""
    if file == "-":
        return read_text_stream(sys.stdin.buffer, "standard input", ENGINE_DOCUMENT), "standard input"
    return read_text(Path(file), ENGINE_DOCUMENT), file


def _usage(file: Path | None, gate: GateFileReader) -> cost.UsageFile | None:
    if file is None or (content := gate.read(file)).is_new:
        return None
    return cost.load_usage_file(file, content.text)


def _commitments(file: Path | None, project: Path | None, gate: GateFileReader) -> tuple[Any, ...]:
    """Return the commitments in the given file, else in the project's file if it has one."""
    root = _root(project)
    path = file or (root / "commitments.yaml" if root else None)
    if path is None:
        return ()
    content = gate.read(path)
    if content.is_new or (file is None and content.text is None):
        return ()
    return cost.load_commitments(path, content.text).commitments


def _root(project: Path | None) -> Path | None:
    """Return the project, None without one: a preview can be priced anywhere."""
    try:
        return paths.find_given_project(project)
    except InputError:
        return None


def _require_stack(stack: str | None) -> str:
    from gpufleet.cost.inputs.stack_name import parse_stack_name

    if not stack:
        stacks = sorted(completion.list_stack_names()) if _root(None) else []
        remedy = f"give -s {' or '.join(stacks)}" if stacks else "for example -s production"
        raise InputError("no stack given", where="--stack", remedy=remedy)
    return parse_stack_name(stack)
