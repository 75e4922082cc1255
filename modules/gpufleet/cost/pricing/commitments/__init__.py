"""Commitments that are bought already, and what a change costs net of them.

Input: ``commitments.yaml`` (Reserved Instances, Savings Plans, committed use, reservations, prepaid blocks)
and the cost components of one program. Output: which component each commitment pays for, how much of it is
unused, and above how many hours a month a new one would pay.

A commitment bills around the clock, used or not. A covered hour costs nothing more and an unused hour is
lost. Machines of several pools are assumed to run at the same hours: a commitment for one machine never
covers two, so that the marginal cost is never understated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpufleet.cost.pricing.commitments.breakeven import (
    CommitmentBreakEven,
    build_break_even_document,
    compute_break_evens,
)
from gpufleet.cost.pricing.commitments.text import (
    format_commitment_notes,
    format_commitment_warnings,
    format_unused_commitment_increases,
)

if TYPE_CHECKING:
    from pathlib import Path

    from gpufleet.cost.pricing.commitments.model import CommitmentFile

__all__ = [
    "CommitmentBreakEven",
    "build_break_even_document",
    "compute_break_evens",
    "format_commitment_notes",
    "format_commitment_warnings",
    "format_unused_commitment_increases",
    "load_commitments",
]


def load_commitments(path: Path, text: str | None = None) -> CommitmentFile:
    """Read a file of commitments; each mistake is one line with its place.

    ``text`` is its content where it is not that of the working tree.
    """
    # pydantic and YAML: only if there is a file
    from gpufleet.cost.pricing.commitments.file import read_commitments_file

    return read_commitments_file(path, text)
