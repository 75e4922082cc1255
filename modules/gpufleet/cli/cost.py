"""``gpufleet cost``: what the declared fleet costs, and what a change to it would cost."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from gpufleet import cost, paths
from gpufleet.cost import CostDiff, Policy
from gpufleet.engine import read_document
from gpufleet.errors import AnswerIsNo, InputError

STACK = click.option("-s", "--stack", help="The stack, as in stacks/Pulumi.STACK.yaml.")
CONFIG_FILE = click.option(
    "--config-file", type=click.Path(path_type=Path), help="Use this file as the stack's: what if?"
)
JSON = click.option("--json", "as_json", is_flag=True, help="The same as --format json.")


@click.group()
def command() -> None:
    """Say what the declared fleet costs, and what a change to it would cost; no engine, no credentials."""


@command.command()
@STACK
@CONFIG_FILE
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", show_default=True)
@JSON
def estimate(stack: str | None, config_file: Path | None, form: str, as_json: bool) -> None:
    """Price a stack by pool: per hour, per month, range, budget, and the prices behind it."""
    root = paths.project_root()
    answer = cost.estimate_stack(root, _needed(stack), config_file)
    click.echo(cost.render_estimate(answer, "json" if as_json else form))


@command.command()
@STACK
@click.option("--base", metavar="GITREF", help="Compare the working tree with this commit, branch or tag.")
@click.option(
    "--preview", metavar="FILE", help="Read `pulumi preview --json --show-sames`; - is standard input."
)
@CONFIG_FILE
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "markdown", "json", "html"]),
    default="table",
    show_default=True,
)
@JSON
@click.option(
    "--policy", "policy_file", type=click.Path(path_type=Path), help="Limits; exit code 1 if broken."
)
def diff(  # noqa: PLR0917 - click hands each option over by name
    stack: str | None,
    base: str | None,
    preview: str | None,
    config_file: Path | None,
    form: str,
    as_json: bool,
    policy_file: Path | None,
) -> None:
    """Price a change: the working tree against a git ref, or the two sides of a preview."""
    policy = cost.load_policy(policy_file) if policy_file else None
    answer = _difference(stack, base, preview, config_file, policy)
    click.echo(cost.render_diff(answer, "json" if as_json else form))
    if not answer.policy.passed:
        first = answer.policy.violations[0]
        more = f" and {len(answer.policy.violations) - 1} more" if len(answer.policy.violations) > 1 else ""
        raise AnswerIsNo(f"policy violated: {first.rule}: {first.message}{more}")


def _difference(
    stack: str | None, base: str | None, preview: str | None, config_file: Path | None, policy: Policy | None
) -> CostDiff:
    if (base is None) == (preview is None):
        raise InputError(
            "give one of --base and --preview", where="cost diff", remedy="for example --base HEAD"
        )
    if preview is None:
        return cost.diff_against(paths.project_root(), _needed(stack), str(base), config_file, policy)
    if config_file is not None:
        raise InputError(
            "goes with --base only", where="--config-file", remedy="preview that file with Pulumi"
        )
    return cost.diff_preview(_read(preview), _root(), policy)


def _read(preview: str) -> dict[str, object]:
    if preview == "-":
        return read_document(sys.stdin.read(), "standard input")
    try:
        return read_document(Path(preview).read_text(encoding="utf-8"), preview)
    except OSError as error:
        raise InputError(error.strerror or "cannot be read", where=preview) from None


def _root() -> Path | None:
    """Return the project here, None where there is none: a preview can be priced anywhere."""
    try:
        return paths.project_root()
    except InputError:
        return None


def _needed(stack: str | None) -> str:
    if not stack:
        raise InputError("no stack given", where="--stack", remedy="for example -s production")
    return stack
