"""The values that the registry takes and gives."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from gpufleet.nodes.identity import NodeIdentity, Slot
from gpufleet.nodes.states import BURN_IN_HOLD, USABLE_STATES

OBSERVING_SOURCES = ("address_book", "ansible", "burn_in", "configuration", "ssh")
"""Sources that only observe nodes: they neither declare nor make them."""


def is_witness_source(source: str) -> bool:
    """Return whether a source, such as ``ssh`` or ``rack:r1``, only observes nodes."""
    return source.partition(":")[0] in OBSERVING_SOURCES


DECLARED_HARDWARE = ("storage_gib", "memory_gib", "drives", "interfaces", "fabric", "nvlinks", "nvswitch")
"""What is declared of a node's hardware next to its machine and accelerators."""


def utc_now() -> datetime:
    """Return the present moment, in UTC."""
    return datetime.now(UTC)


def format_utc_time(moment: datetime) -> str:
    """Return a moment as text that sorts by time: ``2026-11-21T10:38:39.120Z``."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class NodeObservation:
    """What one source reports about one node at one time.

    ``declared`` is what we want (a rack file, a stack), ``observed`` what was seen: the registry keeps them
    under different keys (``declared.machine``, ``observed.machine``), so that drift stays visible.
    """

    source: str
    name: str
    identity: NodeIdentity = field(default_factory=NodeIdentity)
    declared: dict[str, Any] = field(default_factory=dict)
    observed: dict[str, Any] = field(default_factory=dict)
    observed_at: datetime = field(default_factory=utc_now)

    def values_by_registry_key(self) -> dict[str, Any]:
        """Return every value under its registry key."""
        declared = {f"declared.{key}": value for key, value in self.declared.items()}
        return declared | {f"observed.{key}": value for key, value in self.observed.items()}


@dataclass(frozen=True, slots=True)
class SourcedValue:
    """One value with where it comes from and when it was seen; ``revision`` orders it among others."""

    source: str
    key: str
    value: Any
    observed_at: datetime
    revision: int = 0


def latest_values_by_key(values: Iterable[SourcedValue]) -> dict[str, Any]:
    """Return the value of each key; where several sources give one, that of the last in the list."""
    return {value.key: value.value for value in values}


@dataclass(frozen=True, slots=True)
class NodeHold:
    kind: str
    reason: str
    since: datetime

    @property
    def is_of_burn_in(self) -> bool:
        """True if burn-in set the hold, not a person."""
        return self.kind == "operator" and self.reason.startswith(BURN_IN_HOLD)


@dataclass(frozen=True, slots=True)
class SourcePresence:
    """A source that knows the node; ``missing_since`` where a later, complete report left it out."""

    source: str
    observed_at: datetime
    missing_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """One node as the registry knows it now.

    ``hardware`` has the declared values of ``DECLARED_HARDWARE``, as far as a source declares them.
    """

    id: str
    name: str
    kind: str
    state: str
    state_since: datetime
    state_reason: str
    cloud: str | None = None
    region: str | None = None
    pool: str | None = None
    rack: str | None = None
    slot: str | None = None
    stack: str | None = None
    template: str | None = None
    machine: str | None = None
    address: str | None = None
    serial: str | None = None
    instance_id: str | None = None
    account: str = ""
    accelerators: tuple[dict[str, Any], ...] = ()
    hardware: dict[str, Any] = field(default_factory=dict)
    usd_per_hour: float | None = None
    reachable: bool | None = None
    reachable_at: datetime | None = None
    reachable_detail: str | None = None
    attempt: str | None = None
    verdict: str | None = None
    holds: tuple[NodeHold, ...] = ()
    sources: tuple[SourcePresence, ...] = ()

    @property
    def rack_slot(self) -> Slot | None:
        return (self.rack, self.slot) if self.rack and self.slot else None

    @property
    def place(self) -> NodeIdentity:
        """Return the identity without the serial: what a report about this node is entered under."""
        return NodeIdentity(
            instance_id=self.instance_id, rack=self.rack, slot=self.slot, account=self.account
        )

    @property
    def slot_number(self) -> int | str | None:
        """Return the slot as people count it: a number where it is one."""
        return int(self.slot) if self.slot and self.slot.isdecimal() else self.slot

    @property
    def making_sources(self) -> tuple[SourcePresence, ...]:
        """Return the sources that declare or make the node, those that have lost it included."""
        return tuple(seen for seen in self.sources if not is_witness_source(seen.source))

    @property
    def is_missing(self) -> bool:
        """True if every source that declares or makes nodes has since lost this one."""
        makers = self.making_sources
        return bool(makers) and all(seen.missing_since for seen in makers)

    @property
    def is_usable(self) -> bool:
        """True if work may be placed here: the state is usable and no hold blocks it."""
        return self.state in USABLE_STATES and not self.holds

    @property
    def why(self) -> str:
        """Return the reason worth a reader's time: why it does not answer, else why it is in its state."""
        reason = (self.reachable_detail or "no answer") if self.reachable is False else self.state_reason
        return " ".join(reason.split())

    def as_json(self) -> dict[str, Any]:
        """Return the stable shape that ``gpufleet nodes list --json`` prints."""
        plain = ("id", "name", "kind", "cloud", "region", "pool", "rack")
        return {
            **{name: getattr(self, name) for name in plain},
            "slot": self.slot_number,
            "template": self.template,
            "address": self.address,
            "reachable": self.reachable,
            "state": self.state,
            "why": self.why,
            "holds": [hold.kind for hold in self.holds],
            "accelerators": [dict(item) for item in self.accelerators],
            "usd_per_hour": self.usd_per_hour,
            "sources": [
                {"source": sighting.source, "observed_at": format_utc_time(sighting.observed_at)}
                for sighting in self.sources
            ],
        }


@dataclass(frozen=True, slots=True)
class NodeHistoryEntry:
    """One line of a node's history; lines are only ever added."""

    node: str
    at: datetime
    event: str
    old_state: str | None
    new_state: str | None
    reason: str
    attempt: str | None
    number: int
    actor: str | None = None


@dataclass(frozen=True, slots=True)
class BurnInResult:
    """What one burn-in attempt brought: the report (judged) and the raw records it was judged from."""

    node: str
    attempt: str
    verdict: str
    report: dict[str, Any]
    records: list[dict[str, Any]]
    recorded_at: datetime
    number: int = 0
    digest: str = ""


@dataclass(frozen=True, slots=True)
class SourceConflict:
    """Two claims that cannot both be true; nothing was overwritten, an operator decides."""

    kind: str
    subject: str
    detail: str
    source: str
    nodes: tuple[str, ...]
    since: datetime


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """How a source last answered: the last good report stays in force while it fails."""

    name: str
    observed_at: datetime | None
    failed_at: datetime | None
    failure: str | None
