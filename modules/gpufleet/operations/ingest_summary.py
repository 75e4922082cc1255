"""The result of applying a run's events to the registry."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from gpufleet.boundary import make_printable
from gpufleet.errors import CheckFailed
from gpufleet.remote import fold_names_to_ranges


@dataclass(frozen=True)
class RunVerdict:
    """Whether a run is done: the problem is empty if it is. ``undone`` has the names of the other hosts by status."""

    name: str
    problem: str
    undone: dict[str, list[str]]

    def __str__(self) -> str:
        lists = [
            f"{status.replace('_', ' ')} {fold_names_to_ranges(names)}"
            for status, names in self.undone.items()
        ]
        hosts = f"; not done: {', '.join(lists)}" if lists else ""
        return f"run {self.name} is not done: {self.problem}{make_printable(hosts, None)}"


@dataclass
class IngestSummary:
    """The result of the events, by host."""

    events: int = 0
    unreachable: dict[str, str] = field(default_factory=dict)
    verdicts: dict[str, str] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)
    repeated: int = 0
    run: RunVerdict | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def format_summary_lines(self) -> Iterator[str]:
        """Yield the summary as text."""
        yield f"{self.events} events"
        yield from (f"{node}: {verdict}" for node, verdict in self.verdicts.items())
        yield from (f"{host}: unreachable: {reason}" for host, reason in self.unreachable.items())
        yield from (f"ignored: {line}" for line in self.ignored)
        yield from (f"conflict: {what}" for what in self.conflicts)
        yield from _first_lines(self.stale, "stale, changed nothing")
        yield from _first_lines(self.bad, "bad, left out")

    def get_list_lengths(self) -> tuple[int, ...]:
        """Return how long each list is, for ``restore_list_lengths``."""
        return tuple(len(lines) for lines in self._lists())

    def restore_list_lengths(self, lengths: tuple[int, ...]) -> None:
        """Remove what was added to the lists since."""
        for lines, length in zip(self._lists(), lengths, strict=True):
            del lines[length:]

    def _lists(self) -> tuple[list[str], ...]:
        return self.ignored, self.conflicts, self.unknown, self.stale, self.bad

    def raise_if_incomplete(self) -> None:
        """Raise CheckFailed if the run is not done, or had hosts that the registry does not know."""
        problems, hint = [], "run the playbook again on these hosts"
        if self.run and self.run.problem:
            problems.append(str(self.run))
        if self.unknown:
            hint = "gpufleet nodes sync -s STACK, then ingest again"
            problems.append(f"not in the registry: {', '.join(self.unknown)}")
        if problems:
            raise CheckFailed("; ".join(problems), hint=hint)


def _first_lines(lines: list[str], label: str, max_lines: int = 20) -> Iterator[str]:
    """Yield the first lines of a kind, and how many more there are."""
    yield from (f"{label}: {line}" for line in lines[:max_lines])
    if len(lines) > max_lines:
        yield f"{label}: {len(lines) - max_lines} more"
