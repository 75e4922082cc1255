"""Which figures of a usage file the pricers read. A figure that none reads has no effect, which must be said."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.usage.model import ResourceUsage, UsageFile
from gpufleet.engine import StateResource

HOURS = "hours_per_month"
# What belongs to spot is read for every resource, whether it has an effect or not.
RECORDED = frozenset({"egress_gib", "processed_gib", "load_balancer_units", "desired", "min", "max"})
LISTED_NAMES = 3
LISTED_KEYS = 6


class _RecordedAmounts(dict[str, Decimal]):
    """Amounts of one resource that record which of them are read."""

    def __init__(self, amounts: Iterable[tuple[str, Decimal]], read: set[str]) -> None:
        super().__init__(amounts)
        self.read = read

    def get(self, key: str, default: Any = None) -> Any:
        self.read.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> Decimal:
        self.read.add(key)
        return super().__getitem__(key)


@dataclass(frozen=True)
class RecordedUsage(ResourceUsage):
    """One resource's usage that records which of its figures are read."""

    read: set[str] = field(default_factory=set, compare=False)

    def __getattribute__(self, name: str) -> Any:
        if name in RECORDED:
            super().__getattribute__("read").add(name)
        return super().__getattribute__(name)


@dataclass
class UsageRecord:
    """The figures that were read of each resource, by URN."""

    read_by_urn: dict[str, set[str]] = field(default_factory=dict)

    def record(self, resource: StateResource, usage: ResourceUsage) -> RecordedUsage:
        """Return the usage as it is given to a pricer."""
        read = self.read_by_urn.setdefault(resource.urn, set())
        values = {each.name: getattr(usage, each.name) for each in fields(ResourceUsage)}
        return RecordedUsage(**values | {"amounts": _RecordedAmounts(usage.amounts.items(), read)}, read=read)

    def record_billed_hours(self, resource: StateResource) -> None:
        """Record that the hours have an effect on the price of a resource; every pricer reads them."""
        self.read_by_urn.setdefault(resource.urn, set()).add(HOURS)

    def format_unread_key_notes(self, resources: Iterable[StateResource], usage: UsageFile) -> Iterator[str]:
        """Yield a note for each key of an entry that has no effect on any resource that the entry matches."""
        resource_list = tuple(resources)
        having_by_key: dict[str, list[StateResource]] = {}
        for entry, matches in usage.match_entries(resource_list):
            for key in _list_given_keys(entry.usage):
                if matches and not any(key in self.read_by_urn.get(each.urn, ()) for each in matches):
                    having_by_key.setdefault(key, []).extend(matches)
        for key, having in sorted(having_by_key.items()):
            names = sorted({resource.name for resource in having})
            more = f" and {len(names) - LISTED_NAMES} more" if len(names) > LISTED_NAMES else ""
            listed = f"{', '.join(names[:LISTED_NAMES])}{more}"
            read_keys = set().union(*(self.read_by_urn.get(resource.urn, ()) for resource in having))
            yield f"{usage.path}: {key} has no effect on the price of {listed}{_format_read_keys(read_keys)}"


def _format_read_keys(keys: Iterable[str]) -> str:
    """Return which keys the pricers read instead, empty if they read none or many."""
    names = sorted(keys)
    return f"; its keys: {', '.join(names)}" if 0 < len(names) <= LISTED_KEYS else ""


def _list_given_keys(usage: ResourceUsage) -> Iterator[str]:
    yield from usage.amounts
    yield from (name for name in (HOURS, *RECORDED) if getattr(usage, name) is not None)
