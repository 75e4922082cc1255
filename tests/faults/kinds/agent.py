"""The burn-in agent killed at a random moment, or its record damaged: the next start completes the attempt."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from faults.kinds.base import Kind
from faults.kinds.damage import damage

PACE = {
    "rehearsal": "1",
    "cpu_seconds": "0.3",
    "memory_mib": "16",
    "memory_seconds": "0.1",
    "storage_mib": "4",
}
BUILD = "import sys; from gpufleet import burnin; burnin.build_agent_zipapp(__import__('pathlib').Path(sys.argv[1]))"


class KillAgent(Kind):
    """SIGKILL of the agent: its output is recorded, its load stops, the next start completes the attempt."""

    name = "kill-agent"
    leaves_registry = False

    def setup(self) -> None:
        self.agent: Path = self.run.workspace.cached("agent", self.build)
        self.journal = self.run.folder / "attempt.jsonl"
        pace = [option for key, value in PACE.items() for option in ("-p", f"{key}={value}")]
        self.command = (self.agent, "run", "--attempt", "a1", "--out", self.journal, *pace)

    def build(self) -> Path:
        """Build the agent once for the campaign."""
        target = self.run.workspace.folder / "agent.pyz"
        self.run.call("-c", BUILD, target, program=sys.executable)
        return target

    def act(self) -> None:
        self.seen: list[str] = []
        for _ in range(self.rng.randint(1, 2)):
            running = self.run.start(*self.command, program=sys.executable, PYTHONUNBUFFERED="1")
            self.run.interrupt(running, self.journal, 3.0)
            self.seen += whole_lines(running.wait().out)
            self.run.until(lambda: not self.run.processes(), 20)
            for pid, text in self.run.processes().items():
                self.run.violate(f"the agent's load outlives it: {pid} {text[:100]}")

    def check(self) -> None:
        complete_lines = set(whole_lines(self.journal.read_text())) if self.journal.exists() else set()
        lost = [line[:100] for line in self.seen if line not in complete_lines]
        self.run.expect(not lost, f"printed and not in the record: {lost}")
        self.complete()

    def complete(self) -> None:
        """Start the same attempt again: it must decide every check once."""
        second_result = self.run.succeed(*self.command, program=sys.executable)
        records = [json.loads(line) for line in whole_lines(second_result.out)]
        kinds = [record["type"] for record in records]
        self.run.expect(kinds[:1] == ["start"] and kinds[-1:] == ["end"], f"not a whole record: {kinds}")
        names = [record["name"] for record in records if record["type"] == "check"]
        self.run.expect(len(names) == len(set(names)) > 5, f"checks of the whole record: {names}")


class DamagedJournal(KillAgent):
    """The agent's record cut off or overwritten: the next start replaces what is damaged and completes the attempt."""

    name = "damaged-agent-record"

    def act(self) -> None:
        running = self.run.start(*self.command, program=sys.executable)
        self.run.interrupt(running, self.journal, 3.0)
        running.wait()
        if self.journal.is_file() and self.journal.stat().st_size:
            self.run.notes.append(damage(self.journal, self.rng))

    def check(self) -> None:
        self.complete()


def whole_lines(text: str) -> list[str]:
    """Return the complete lines; a partial last line was never acknowledged."""
    return [line for line in text.split("\n")[:-1] if line]
