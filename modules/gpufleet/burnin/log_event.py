"""An event of the kernel log, as the dictionary and the rules over time pass it on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KernelEvent:
    """One kind of event of one device.

    ``code`` is the ledger's name of the fault (``xid_79``, ``xid_154.2``, ``kernel.nvme_lost``), ``outcome`` one of
    fatal, review, application and record. Times are seconds since boot, of the first, the last and the last few lines;
    ``bursts`` are first and last of lines close together. ``rule`` is the rule over time that decided, if one did.
    """

    code: str
    part_kind: str
    position: str
    outcome: str
    steps: tuple[str, ...]
    text: str
    count: int
    first_seconds: float | None = None
    last_seconds: float | None = None
    meaning: str = ""
    times: tuple[float, ...] = ()
    bursts: tuple[tuple[float, float], ...] = ()
    rule: str = ""
