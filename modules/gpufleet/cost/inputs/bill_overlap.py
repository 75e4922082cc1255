"""Find rows of one export in another: the exports overlap, and the rows are billed twice in their sum.

Neither FOCUS nor Azure nor Google gives a row an id. Two rows are the same if cost, time, resource, service, SKU,
kind, hours and tags are.
"""

from __future__ import annotations

from gpufleet.cost.inputs.bill_row import BilledCharge

MAX_ROWS = 200_000


def compute_row_identity(charge: BilledCharge) -> int:
    """Return a number that the same row has in every export; only within this process."""
    return hash(
        (
            charge.cost,
            charge.start,
            charge.end,
            charge.resource,
            charge.service,
            charge.sku,
            charge.kind,
            charge.hours,
            charge.credit,
            frozenset(charge.tags.items()),
        )
    )


class RowSample:
    """The rows that were read, and the file of each: all of them, or of many a sample in bounded memory.

    A sample has the rows whose number ends in the same binary zeros, in every file. So a row is in it with its copy.
    """

    def __init__(self, max_rows: int = MAX_ROWS) -> None:
        self._max_rows = max_rows
        self._mask = 0
        self._files: dict[int, int] = {}

    def add(self, identity: int, file_number: int) -> int | None:
        """Add a row; return the number of the earlier file that has it, None if no other file does."""
        if identity & self._mask:
            return None
        first = self._files.setdefault(identity, file_number)
        while len(self._files) > self._max_rows:
            self._mask = self._mask * 2 + 1
            self._files = {row: file for row, file in self._files.items() if not row & self._mask}
        return first if first != file_number else None
