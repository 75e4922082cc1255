"""The questions the command line asks, by what they are asked of: a program, a preview, a log, a state."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpufleet.boundary import read_text
from gpufleet.cost.analysis.diff import CostDiff
from gpufleet.cost.analysis.estimate import Estimate, diff, estimate
from gpufleet.cost.analysis.policy import Policy
from gpufleet.cost.analysis.price_date import PriceDates
from gpufleet.cost.inputs.automation import from_automation
from gpufleet.cost.inputs.program.evaluation import TIME_LIMIT_S, Program, evaluating, evaluating_both
from gpufleet.cost.inputs.stack_change import (
    Sides,
    resources_from_events,
    resources_from_preview,
    resources_from_state,
)
from gpufleet.cost.inputs.usage import NO_USAGE, UsageFile
from gpufleet.engine import Events
from gpufleet.errors import InputError

if TYPE_CHECKING:
    from gpufleet.cost.pricing.commitments.model import Commitment
    from gpufleet.fleet import Fleet


@dataclass(frozen=True)
class Asked:
    """What goes with any question: the policy to judge by, the use of what we do not declare, patience.

    ``commitments`` are what is bought already; ``dates`` are those of each side's prices, where they differ.
    ``trusted`` programs are evaluated with the whole environment, the network and every file.
    """

    policy: Policy | None = None
    usage: UsageFile = field(default=NO_USAGE)
    limit_s: float = TIME_LIMIT_S
    commitments: tuple[Commitment, ...] = ()
    dates: PriceDates | None = None
    trusted: bool = False


PLAINLY = Asked()


def estimate_stack(
    root: Path, stack: str, config_file: Path | None = None, asked: Asked = PLAINLY
) -> Estimate:
    """Evaluate a stack in the working tree and price it; the project may be anybody's."""
    with evaluating([_program(root, stack, config_file, asked)], asked.limit_s) as run:
        declared = _declared(root, stack, config_file)
        return estimate(run()[0], declared, stack=stack, usage=asked.usage, commitments=asked.commitments)


def estimate_state(document: Mapping[str, Any], asked: Asked = PLAINLY) -> Estimate:
    """Price what a ``pulumi stack export`` says is deployed."""
    resources = resources_from_state(document)
    stack = _stack(r.urn for r in resources)
    return estimate(resources, stack=stack, usage=asked.usage, commitments=asked.commitments)


def diff_against(
    root: Path, stack: str, base: str, config_file: Path | None = None, asked: Asked = PLAINLY
) -> CostDiff:
    """Compare a stack in the working tree with itself at a git ref."""
    with evaluating_both(root, stack, base, config_file, asked.limit_s, trusted=asked.trusted) as run:
        declared = _declared(root, stack, config_file)
        before, after = run()
    return _answer(before, after, Sides(stack=stack), declared, asked)


def diff_prices(root: Path, stack: str, config_file: Path | None = None, asked: Asked = PLAINLY) -> CostDiff:
    """Compare a stack with itself at the prices of two days: no code is compared."""
    with evaluating([_program(root, stack, config_file, asked)], asked.limit_s) as run:
        declared = _declared(root, stack, config_file)
        same = run()[0]
    return _answer(same, same, Sides(stack=stack), declared, asked)


def diff_state(
    document: Mapping[str, Any],
    root: Path,
    stack: str,
    config_file: Path | None = None,
    asked: Asked = PLAINLY,
) -> CostDiff:
    """Compare what is deployed with what the program in the working tree declares."""
    with evaluating([_program(root, stack, config_file, asked)], asked.limit_s) as run:
        declared = _declared(root, stack, config_file)
        before, after = resources_from_state(document), run()[0]
    deployed = _stack(r.urn for r in before)
    if deployed and deployed != stack:
        raise InputError(f"the state is that of {deployed!r}, not {stack!r}", where="--state")
    return _answer(before, after, Sides(stack=stack), declared, asked)


def diff_preview(document: Mapping[str, Any], root: Path | None = None, asked: Asked = PLAINLY) -> CostDiff:
    """Compare the two sides of an engine's preview; the budget is that of the stack it previews."""
    with uncollected():
        sides = resources_from_preview(document)
        return _answer(sides.before, sides.after, sides, _previewed(root, sides.stack), asked)


def diff_events(events: Events, root: Path | None = None, asked: Asked = PLAINLY) -> CostDiff:
    """Compare the two sides of an engine's event log."""
    with uncollected():
        sides = resources_from_events(events)
        return _answer(sides.before, sides.after, sides, _previewed(root, sides.stack), asked)


def diff_automation(events: Iterable[Any], result: Any = None, asked: Asked = PLAINLY) -> CostDiff:
    """Compare the two sides of an Automation API run: what ``on_event`` was given, and what it returned."""
    sides = from_automation(events, result)
    return _answer(sides.before, sides.after, sides, None, asked)


@contextmanager
def uncollected() -> Iterator[None]:
    """Make a large answer undisturbed: all of it stays, and searching it for garbage took a third of the time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _program(root: Path, stack: str, config_file: Path | None, asked: Asked) -> Program:
    return Program(root, stack, config_file, trusted=asked.trusted)


def _answer(before: Any, after: Any, sides: Sides, declared: Fleet | None, asked: Asked) -> CostDiff:
    return diff(
        before,
        after,
        asked.policy,
        sides=sides,
        budget=declared.budget_usd_per_month if declared else None,
        usage=asked.usage,
        commitments=asked.commitments,
        declared=declared,
        dates=asked.dates,
    )


def _stack(urns: Iterable[str]) -> str:
    return next((urn.split("::")[0].removeprefix("urn:pulumi:") for urn in urns), "")


def _declared(root: Path, stack: str, config_file: Path | None) -> Fleet | None:
    """Return the fleet that a stack declares; a program that is not ours declares none."""
    from gpufleet import fleet  # imported here: while it loads, the child imports the SDKs already

    if not _is_ours(root, stack, config_file):
        return None
    return fleet.load(stack, root, config_file)


def _is_ours(root: Path, stack: str, config_file: Path | None) -> bool:
    """Tell whether a stack declares a fleet; one that is not there is taken for ours, where stacks are kept so."""
    places = (
        [config_file]
        if config_file
        else [root / "stacks" / f"Pulumi.{stack}.yaml", root / f"Pulumi.{stack}.yaml"]
    )
    texts = [read_text(place) for place in places if place.is_file()]
    return any("gpufleet:" in text for text in texts) if texts else (root / "stacks").is_dir()


def _previewed(root: Path | None, stack: str) -> Fleet | None:
    """Return the fleet of a previewed stack, where the project here declares that stack."""
    if root is None or not stack:
        return None
    from gpufleet import fleet

    try:
        return fleet.load(stack, root)
    except InputError:
        return None  # a preview may come from elsewhere; it is priced all the same
