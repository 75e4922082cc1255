"""What a usage file says, and of which resource it says it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from fnmatch import fnmatchcase

from gpufleet.cost.money import Range
from gpufleet.engine import Resource

OVERLAP_HOURS = Decimal(1)  # our assumption of how long old and new run side by side in a replacement


@dataclass(frozen=True)
class Usage:
    """What is known of one resource's use; None where nothing is."""

    hours_per_month: Decimal | None = None
    desired: Decimal | None = None
    min: Decimal | None = None
    max: Decimal | None = None
    egress_gib: Decimal | None = None
    processed_gib: Decimal | None = None
    load_balancer_units: Decimal | None = None
    # how the work bears interruptions, of what is bought on spot
    interruptions_per_month: Decimal | None = None
    checkpoint_minutes: Decimal | None = None
    restart_minutes: Decimal | None = None
    checkpoint_cost_minutes: Decimal | None = None
    fallback_share: Decimal | None = None

    def over(self, other: Usage) -> Usage:
        """Return this one, with what it leaves out taken from the other."""
        said = {name.name: value for name in fields(self) if (value := getattr(self, name.name)) is not None}
        return replace(other, **said)

    def size(self, declared: Range | None) -> Range | None:
        """Return a group's size as used, where the file says one; else the declared."""
        if (self.desired, self.min, self.max) == (None, None, None):
            return declared
        known = declared or Range.spanning(
            *(next(v for v in order if v is not None) for order in self._guesses())
        )
        wanted = known.expected if self.desired is None else self.desired
        low = known.low if self.min is None else self.min
        high = known.high if self.max is None else self.max
        wanted = wanted if self.desired is not None else min(max(wanted, low), max(low, high))
        return Range.spanning(low, wanted, high)

    def _guesses(self) -> Iterable[tuple[Decimal | None, ...]]:
        """Return which values stand in for low, expected and high, where the program knows none."""
        return (
            (self.min, self.desired, self.max),
            (self.desired, self.max, self.min),
            (self.max, self.desired, self.min),
        )


NOTHING_SAID = Usage()


@dataclass(frozen=True)
class Entry:
    """One pattern of the file, and where it stands."""

    pattern: str
    usage: Usage
    line: int


@dataclass(frozen=True)
class UsageFile:
    """Entries by resource (URN or name) and by type. A resource's beats a type's, an exact one a wildcard."""

    path: str = ""
    resources: tuple[Entry, ...] = ()
    types: tuple[Entry, ...] = ()
    overlap_hours: Decimal = field(default=OVERLAP_HOURS)

    def of(self, resource: Resource) -> Usage:
        """Return what the file says of a resource."""
        by_name = [e for e in self.resources if _matches(e.pattern, resource.urn, resource.name)]
        by_type = [e for e in self.types if fnmatchcase(resource.type, e.pattern)]
        found = NOTHING_SAID
        for entry in (*_widest_first(by_type), *_widest_first(by_name)):
            found = entry.usage.over(found)
        return found

    def unmatched(self, resources: Iterable[Resource]) -> tuple[str, ...]:
        """Return a note for each pattern that no resource answers to: it is misspelt, or has outlived one."""
        listed = list(resources)
        lost = [e for e in self.resources if not any(_matches(e.pattern, r.urn, r.name) for r in listed)]
        lost += [e for e in self.types if not any(fnmatchcase(r.type, e.pattern) for r in listed)]
        return tuple(
            f"{self.path}:{entry.line}: {entry.pattern} is no resource of this stack" for entry in lost
        )


NO_USAGE = UsageFile()


def _matches(pattern: str, urn: str, name: str) -> bool:
    return pattern in (urn, name) or fnmatchcase(name, pattern) or fnmatchcase(urn, pattern)


def _widest_first(entries: Iterable[Entry]) -> list[Entry]:
    """Order by how much a pattern leaves open: wildcards, then names, then URNs."""
    return sorted(entries, key=lambda entry: (not _is_wild(entry.pattern), len(entry.pattern)))


def _is_wild(pattern: str) -> bool:
    return any(mark in pattern for mark in "*?[")
