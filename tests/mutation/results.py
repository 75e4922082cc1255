"""The table of rooms and the report of survivors."""

from __future__ import annotations

import difflib
import json
import sys
from collections import defaultdict
from pathlib import Path

from rooms import ROOT
from sampling import Mutant
from trials import SURVIVED, Trial

FOLDER = ROOT / ".gpufleet/mutation"
OVERALL, EACH = 85, 75


class Run:
    def __init__(self, seed: str, count: int) -> None:
        self.seed, self.count = seed, count
        self.trials: dict[str, list[Trial]] = {}
        self.equivalent: dict[str, list[tuple[Mutant, str]]] = defaultdict(list)
        self.skipped: dict[str, int] = defaultdict(int)
        self.sizes: dict[str, int] = {}

    def open_room(self, room: str, mutants, selection) -> None:
        self.trials[room] = []
        self.sizes[room] = len(mutants)

    def skip(self, room: str, reason: str) -> None:
        self.skipped[room] += 1

    def leave_out(self, room: str, mutant: Mutant, reason: str) -> None:
        self.equivalent[room].append((mutant, reason))

    def add(self, room: str, trial: Trial) -> None:
        self.trials[room].append(trial)
        before, after = _change(trial.mutant)
        print(f"{trial.outcome:8} {trial.seconds:5.1f} s  {trial.mutant.location}  {before} → {after}",
              file=sys.stderr, flush=True)  # fmt: skip

    def table(self) -> str:
        """Return the table: a room a line, then all of them."""
        heads = ("mutants", "tried", "killed", "survived", "killed %", "equivalent", "not run")
        lines = [" ".join([f"{'room':12}", *(f"{head:>{max(8, len(head))}}" for head in heads)])]
        for room, trials in self.trials.items():
            lines.append(_row(room, self.sizes[room], trials, len(self.equivalent[room]), self.skipped[room]))
        all_trials = [trial for trials in self.trials.values() for trial in trials]
        lines.append(
            _row("all", sum(self.sizes.values()), all_trials, sum(map(len, self.equivalent.values())),
                 sum(self.skipped.values()))
        )  # fmt: skip
        return "\n".join([f"seed {self.seed}, {self.count} mutants a room", *lines])

    def is_good_enough(self) -> bool:
        """Return whether 85 % of all and 75 % of each room's mutants were noticed."""
        all_trials = [trial for trials in self.trials.values() for trial in trials]
        rooms = all(_percent(trials) >= EACH for trials in self.trials.values())
        return rooms and _percent(all_trials) >= OVERALL

    def write(self) -> Path:
        """Write the report of survivors and, for programs, every trial as a line of JSON."""
        FOLDER.mkdir(parents=True, exist_ok=True)
        name = f"seed-{self.seed}" if len(self.trials) > 1 else f"seed-{self.seed}-{'-'.join(self.trials)}"
        report = FOLDER / f"{name}.md"
        parts = ["# Mutants", "```", self.table(), "```", "## Survivors"]
        for trials in self.trials.values():
            parts += [_survivor(trial) for trial in trials if trial.outcome == SURVIVED]
        parts.append("## Left out: the same program for its users")
        for left in self.equivalent.values():
            parts += [
                f"- {mutant.location}: {' → '.join(_change(mutant))}: {reason}" for mutant, reason in left
            ]
        report.write_text("\n".join(parts) + "\n")
        with (FOLDER / f"{name}.jsonl").open("w") as file:
            for room, trials in self.trials.items():
                for trial in trials:
                    file.write(json.dumps(_record(room, trial)) + "\n")
        return report


def _percent(trials: list[Trial]) -> float:
    survived = sum(trial.outcome == SURVIVED for trial in trials)
    return 100 * (len(trials) - survived) / len(trials) if trials else 100.0


def _row(room: str, size: int, trials: list[Trial], equivalent: int, skipped: int) -> str:
    survived = sum(trial.outcome == SURVIVED for trial in trials)
    killed = len(trials) - survived
    return (
        f"{room:12} {size:8} {len(trials):8} {killed:8} {survived:8} {_percent(trials):8.0f} "
        f"{equivalent:10} {skipped:8}"
    )


def _change(mutant: Mutant) -> tuple[str, str]:
    return mutant.changed_lines((ROOT / mutant.file).read_text())


def _record(room: str, trial: Trial) -> dict:
    before, after = _change(trial.mutant)
    return {
        "room": room, "where": trial.mutant.location, "operator": trial.mutant.operator, "before": before,
        "after": after, "outcome": trial.outcome, "noticed_by": trial.noticed_by, "tried": trial.tried,
        "seconds": round(trial.seconds, 1),
    }  # fmt: skip


def _survivor(trial: Trial) -> str:
    mutant = trial.mutant
    source = (ROOT / mutant.file).read_text()
    diff = difflib.unified_diff(
        source.splitlines(), (mutant.apply(source) or "").splitlines(), lineterm="", n=1
    )
    change = "\n".join(list(diff)[2:])
    return f"### {mutant.location}\n{mutant.operator}, {trial.tried} tests tried\n```diff\n{change}\n```"
