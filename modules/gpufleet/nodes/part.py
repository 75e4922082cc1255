"""Parts of nodes, and what their repair ledger holds: plain values, no database."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

REPAIR_ACTIONS = {
    "correct": "no part is broken: disk space, the clock or the configuration was put right",
    "reset": "the GPU or the drive was reset",
    "reboot": "the node was rebooted or power-cycled",
    "reseat": "the part was taken out and put back, cables too",
    "inspect": "somebody looked at power, cooling, cables or mechanics",
    "diagnose": "the vendor's diagnostics ran on the part: dcgmi diag, then field diagnostics",
    "rma": "a case was opened with the vendor, or the part was sent in",
    "replace": "another part took its place; the node no longer has it",
}
"""What a person can record as done, with its meaning."""


@dataclass(frozen=True, slots=True)
class ObservedPart:
    """A part as one attempt saw it: ``position`` is its PCI address or device name."""

    kind: str
    serial: str | None = None
    uuid: str | None = None
    model: str | None = None
    position: str = ""


@dataclass(frozen=True, slots=True)
class ObservedFault:
    """A fault as one attempt saw it.

    ``fault`` names its class (``xid_79``, ``gpu_memory.wrong_vectors``). ``position`` names the part of ``part_kind``
    that has it; empty or unknown means the node itself.
    """

    fault: str
    check: str
    detail: str
    part_kind: str = "board"
    position: str = ""
    measured: float | None = None
    threshold: float | None = None
    unit: str = ""


@dataclass(frozen=True, slots=True)
class PartObservation:
    """What one attempt's records say about parts."""

    parts: tuple[ObservedPart, ...] = ()
    faults: tuple[ObservedFault, ...] = ()


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a part was from a moment on; ``node`` is None where it was taken out."""

    at: datetime
    node: str | None
    rack: str | None
    slot: str | None
    position: str
    attempt: str | None


@dataclass(frozen=True, slots=True)
class RepairEntry:
    """One line of a part's ledger; lines are only ever added.

    ``event`` is ``fault``, ``action`` or ``passed``; ``name`` is the fault's class, or the action. ``digest`` is the
    SHA-256 of the raw records that show it.
    """

    number: int
    part: str
    node: str | None
    at: datetime
    event: str
    name: str
    detail: str
    check: str | None = None
    measured: float | None = None
    threshold: float | None = None
    unit: str = ""
    attempt: str | None = None
    digest: str | None = None
    actor: str | None = None


@dataclass(frozen=True, slots=True)
class RecordedAction:
    """What somebody did to a part of a node; ``identity`` is the part's UUID, else its serial, else its id."""

    node: str
    identity: str
    action: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Part:
    """A part with its places and its ledger, both oldest first."""

    id: str
    kind: str
    serial: str | None
    uuid: str | None
    model: str | None
    first_seen_at: datetime
    placements: tuple[Placement, ...] = ()
    entries: tuple[RepairEntry, ...] = ()

    @property
    def label(self) -> str:
        """Return what people call the part by: its serial, else its UUID, else its id."""
        return self.serial or self.uuid or self.id

    @property
    def place(self) -> Placement | None:
        """Return where the part is now, as far as the registry knows."""
        return self.placements[-1] if self.placements else None
