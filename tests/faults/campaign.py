"""The fault campaign's command line: ``PYTHONPATH=tests python -m faults.campaign --count 15``.

Exit code 0 where no invariant was violated, 1 where one was, 2 for a kind that does not exist.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from faults.kinds import load_kinds
from faults.kinds.base import Kind
from faults.postgres import programs
from faults.workspace import ROOT, Workspace

REPORT = ROOT / ".gpufleet" / "faults" / "report.json"


@dataclass(frozen=True)
class Outcome:
    """What one run came to."""

    kind: str
    seed: int
    seconds: float
    violations: list[str]
    notes: list[str]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the campaign and print its table."""
    options = _parser().parse_args(argv)
    kinds = load_kinds()
    unknown = [name for name in options.kind if name not in kinds]
    if unknown:
        print(f"error: no kind {unknown[0]!r}; kinds: {', '.join(kinds)}", file=sys.stderr)
        return 2
    chosen = [kinds[name] for name in options.kind or kinds]
    chosen = [kind for kind in chosen if not kind.needs or kind.needs not in options.without]
    missing = {kind.needs: reason for kind in chosen if (reason := missing_need(kind))}
    for reason in missing.values():
        print(f"left out: kinds that need {reason}", file=sys.stderr)
    chosen = [kind for kind in chosen if kind.needs not in missing]
    outcomes = run_campaign(chosen, options.count, options.seed)
    options.report.parent.mkdir(parents=True, exist_ok=True)
    options.report.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=1) + "\n")
    print(table(outcomes))
    print(f"report: {options.report}", file=sys.stderr)
    return 1 if any(outcome.violations for outcome in outcomes) else 0


def run_campaign(kinds: Sequence[type[Kind]], count: int, seed: int) -> list[Outcome]:
    """Run every kind this often, in turn, each run with its own seed."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that hosts and servers are stopped too
    workspace = Workspace()
    outcomes: list[Outcome] = []
    try:
        for number in range(seed, seed + count):
            for kind in kinds:
                outcomes.append(run_once(workspace, kind, number))
                print(_line(outcomes[-1], len(outcomes), count * len(kinds)), file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print("interrupted: the table has the runs that ended", file=sys.stderr)
    finally:
        workspace.close()
    return outcomes


def run_once(workspace: Workspace, kind: type[Kind], seed: int) -> Outcome:
    """Run one fault; an error of the campaign itself counts as a violation."""
    run = workspace.open(kind.name, seed)
    begun = time.monotonic()
    try:
        kind(run).execute()
    except Exception as error:  # noqa: BLE001 - reported with its seed
        run.violate(f"campaign: {type(error).__name__}: {error}")
    finally:
        run.close()
    return Outcome(kind.name, seed, round(time.monotonic() - begun, 2), run.violations, run.notes)


def table(outcomes: Sequence[Outcome]) -> str:
    """Return kind, runs, violations and their seeds as a table."""
    lines = [f"{'KIND':<24} {'RUNS':>5} {'SEEDS':<10} {'VIOLATIONS':>10}  SEEDS OF VIOLATIONS"]
    for kind in dict.fromkeys(outcome.kind for outcome in outcomes):
        kind_outcomes = [outcome for outcome in outcomes if outcome.kind == kind]
        bad = [outcome.seed for outcome in kind_outcomes if outcome.violations]
        seeds = f"{min(each.seed for each in kind_outcomes)}-{max(each.seed for each in kind_outcomes)}"
        lines.append(
            f"{kind:<24} {len(kind_outcomes):>5} {seeds:<10} {len(bad):>10}  {' '.join(map(str, bad))}".rstrip()
        )
    total = sum(bool(outcome.violations) for outcome in outcomes)
    seconds = sum(outcome.seconds for outcome in outcomes)
    return "\n".join([*lines, f"{len(outcomes)} runs, {total} with violations, {seconds:.0f} s"])


def _line(outcome: Outcome, number: int, total: int) -> str:
    head = f"[{number}/{total}] {outcome.kind} seed {outcome.seed}: {outcome.seconds:.1f} s"
    return "\n  ".join([f"{head} {'; '.join(outcome.notes)}", *outcome.violations])


def missing_need(kind: type[Kind]) -> str:
    """Return what this machine has not and the kind needs; empty when it has everything."""
    missing = [program for program in kind.programs if not shutil.which(program)]
    if missing:
        return missing[0]
    if kind.needs == "hosts":
        return "root on Linux" if sys.platform != "linux" or os.geteuid() else ""
    if kind.needs == "engine":
        from gpufleet import engine

        return "" if engine.find_pulumi_engine() else "the Pulumi engine"
    return "PostgreSQL's server programs" if kind.needs == "postgresql" and not programs() else ""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="faults.campaign", description="Seeded faults and their invariants")
    parser.add_argument("--count", type=int, default=15, help="runs of each kind")
    parser.add_argument("--seed", type=int, default=1, help="the first seed; runs have successive ones")
    parser.add_argument("--kind", action="append", default=[], help="only this kind; may be repeated")
    parser.add_argument(
        "--without", action="append", default=[], choices=["engine", "hosts"], help="leave out what needs it"
    )
    parser.add_argument("--report", type=Path, default=REPORT, help="where the JSON report goes")
    return parser


if __name__ == "__main__":
    sys.exit(main())
