"""Which figures of a usage file the pricers read. A figure that none reads has no effect, which must be said."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from decimal import Decimal
from typing import Any

from gpufleet.cost.inputs.usage.model import ResourceUsage, UsageFile
from gpufleet.engine import StateResource

# Hours and what belongs to spot are read for every resource, whether they have an effect or not.
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

    def format_unread_key_notes(self, resources: Iterable[StateResource], usage: UsageFile) -> Iterator[str]:
        """Yield a note for each key that no pricer read of any resource that has it."""
        resources_by_key: dict[str, list[StateResource]] = {}
        for resource in resources:
            for key in _list_given_keys(usage.find_resource_usage(resource)):
                resources_by_key.setdefault(key, []).append(resource)
        for key, having in sorted(resources_by_key.items()):
            if not any(key in self.read_by_urn.get(resource.urn, ()) for resource in having):
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
    yield from (name for name in RECORDED if getattr(usage, name) is not None)
