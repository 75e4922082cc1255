"""What a source of prices is: a name, a cloud, and a way to read one region whole."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from typing import Protocol

from gpufleet.catalog import table
from gpufleet.catalog.prices.imports.names import REGIONS
from gpufleet.catalog.prices.row import PriceRow, check
from gpufleet.errors import EnvironmentFault, InputError


class NoCredentials(EnvironmentFault):
    """A source needs credentials that are not here; ``hint`` names them."""


class Refused(EnvironmentFault):
    """The other side says no, and would again: a region that the account may not use, a wrong request."""


class Unreachable(EnvironmentFault):
    """The other side did not answer in full, after all retries; a later try may succeed."""


@dataclass(frozen=True)
class Scope:
    """What to read: prices as of ``day``, in ``regions``; none given are those that the catalogue knows."""

    day: date
    regions: tuple[str, ...] = ()

    def of(self, cloud: str) -> tuple[str, ...]:
        """Return the regions of a cloud to read."""
        form = dict(REGIONS)[cloud]
        given = tuple(region for region in self.regions if form.match(region))
        return given if self.regions else tuple(sorted(table.regions(cloud)))


@dataclass(frozen=True)
class Batch:
    """All prices of one region, and what was left out of them, with the reason."""

    rows: tuple[PriceRow, ...]
    left_out: tuple[str, ...] = ()


class Source(Protocol):
    """One API of one cloud. ``read`` gives a region whole, or raises one of the three faults above."""

    @property
    def name(self) -> str:
        """Return what runs and messages call it."""
        ...

    @property
    def cloud(self) -> str:
        """Return whose regions it reads."""
        ...

    def read(self, region: str, scope: Scope) -> Batch:
        """Return every price of a region."""
        ...


def sound(found: Iterable[PriceRow], left_out: Iterable[str] = ()) -> Batch:
    """Make a batch of the rows that are prices at all; the others are left out by name."""
    rows, out = [], list(left_out)
    for row in found:
        try:
            rows.append(check(row))
        except InputError as error:
            out.append(f"{' '.join(row.key)}: {error.problem}")
    return Batch(tuple(rows), tuple(out))
