"""What is bought already, as an inventory of its own, and what a change costs net of it.

In come ``commitments.yaml`` (Reserved Instances, Savings Plans, committed use, reservations, prepaid blocks)
and the demands of one side. Out go which demand each commitment pays for, in which order, what of it nobody
uses, and above how many hours a month a new one would pay.

A commitment bills around the clock whether anything runs in it or not, so a covered hour costs nothing more
and an unused one is lost. Machines of several pools are taken to run at the same hours: a commitment for one
machine never covers two, so that the marginal cost is never understated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpufleet.cost.commitments.allocate import Covered, Use, allocate
from gpufleet.cost.commitments.breakeven import BreakEven, break_even, break_even_document
from gpufleet.cost.commitments.words import changes, doubts, notes

if TYPE_CHECKING:
    from pathlib import Path

    from gpufleet.cost.commitments.model import Commitments

__all__ = [
    "BreakEven",
    "Covered",
    "Use",
    "allocate",
    "break_even",
    "break_even_document",
    "changes",
    "doubts",
    "load",
    "notes",
]


def load(path: Path) -> Commitments:
    """Read a file of commitments; each mistake is one line with its place."""
    from gpufleet.cost.commitments.file import load as read  # pydantic and YAML: only where there is a file

    return read(path)
