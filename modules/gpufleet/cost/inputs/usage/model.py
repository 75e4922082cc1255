"""The entries of a usage file, and the resources that they match."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from fnmatch import fnmatchcase

from gpufleet.cost.money import Range
from gpufleet.engine import StateResource

OVERLAP_HOURS = Decimal(1)  # our assumption: how long old and new run together in a replacement


@dataclass(frozen=True)
class ResourceUsage:
    """One resource's usage; None means unknown."""

    hours_per_month: Decimal | None = None
    desired: Decimal | None = None
    min: Decimal | None = None
    max: Decimal | None = None
    egress_gib: Decimal | None = None
    processed_gib: Decimal | None = None
    load_balancer_units: Decimal | None = None
    # how a spot workload handles interruptions
    interruptions_per_month: Decimal | None = None
    checkpoint_minutes: Decimal | None = None
    restart_minutes: Decimal | None = None
    checkpoint_cost_minutes: Decimal | None = None
    fallback_share: Decimal | None = None
    # by key of data/usage_keys.csv: what a service bills by use, in a month
    amounts: Mapping[str, Decimal] = field(default_factory=dict)

    def with_defaults_from(self, other: ResourceUsage) -> ResourceUsage:
        """Return this usage; its unknown fields come from the other."""
        own_values = {
            name.name: value for name in fields(self) if (value := getattr(self, name.name)) is not None
        }
        return replace(other, **own_values | {"amounts": {**other.amounts, **self.amounts}})

    def resolve_group_size(self, declared_size: Range | None) -> Range | None:
        """Return a group's size in the file, else the declared size."""
        if (self.desired, self.min, self.max) == (None, None, None):
            return declared_size
        known = declared_size or Range.spanning(
            *(next(v for v in order if v is not None) for order in self._fallback_orders())
        )
        expected = known.expected if self.desired is None else self.desired
        low = known.low if self.min is None else self.min
        high = known.high if self.max is None else self.max
        expected = expected if self.desired is not None else min(max(expected, low), max(low, high))
        return Range.spanning(low, expected, high)

    def _fallback_orders(self) -> Iterable[tuple[Decimal | None, ...]]:
        """Return the order of values for low, expected and high if the program declares none."""
        return (
            (self.min, self.desired, self.max),
            (self.desired, self.max, self.min),
            (self.max, self.desired, self.min),
        )


EMPTY_USAGE = ResourceUsage()


@dataclass(frozen=True)
class UsageFileEntry:
    """One pattern of the file, and its line."""

    pattern: str
    usage: ResourceUsage
    line: int

    def matches_name(self, resource: StateResource) -> bool:
        """Return whether the pattern is of a resource's name or URN."""
        names = (resource.urn, resource.name)
        return self.pattern in names or any(fnmatchcase(name, self.pattern) for name in names)

    def matches_type(self, resource: StateResource) -> bool:
        """Return whether the pattern is of a resource's type."""
        return fnmatchcase(resource.type, self.pattern)


@dataclass(frozen=True)
class UsageFile:
    """Entries by resource (URN or name) and by type. A resource's beats a type's, an exact one a wildcard."""

    path: str = ""
    resources: tuple[UsageFileEntry, ...] = ()
    types: tuple[UsageFileEntry, ...] = ()
    overlap_hours: Decimal = field(default=OVERLAP_HOURS)

    def find_resource_usage(self, resource: StateResource) -> ResourceUsage:
        """Return the file's usage of a resource."""
        by_name = [e for e in self.resources if e.matches_name(resource)]
        by_type = [e for e in self.types if e.matches_type(resource)]
        usage = EMPTY_USAGE
        for entry in (*_widest_first(by_type), *_widest_first(by_name)):
            usage = entry.usage.with_defaults_from(usage)
        return usage

    def match_entries(
        self, resources: Sequence[StateResource]
    ) -> Iterator[tuple[UsageFileEntry, list[StateResource]]]:
        """Yield each entry with the resources that it matches."""
        for entry in self.resources:
            yield entry, [each for each in resources if entry.matches_name(each)]
        for entry in self.types:
            yield entry, [each for each in resources if entry.matches_type(each)]

    def format_unmatched_pattern_notes(self, resources: Iterable[StateResource]) -> tuple[str, ...]:
        """Return a note for each pattern that matches no resource."""
        return tuple(
            f"{self.path}:{entry.line}: {entry.pattern} is not a resource of this stack"
            for entry, matches in self.match_entries(tuple(resources))
            if not matches
        )


NO_USAGE = UsageFile()


def _widest_first(entries: Iterable[UsageFileEntry]) -> list[UsageFileEntry]:
    """Sort entries by precision: wildcards, then names, then URNs."""
    return sorted(entries, key=lambda entry: (not _is_wild(entry.pattern), len(entry.pattern)))


def _is_wild(pattern: str) -> bool:
    return any(mark in pattern for mark in "*?[")
