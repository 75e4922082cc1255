"""Readers of other people's price catalogues: a file in, price rows out, each with the line that it stood on.

One file per format: ``skypilot`` (vms.csv of SkyPilot's catalogue), ``gpuhunt`` (its catalogue as CSV, zip or JSON),
``plain`` (our own columns, which also read exports that call a machine ``instance_type``). A reader gives what the
file says; what is suspicious about it is judged by the checks when the run is committed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from gpufleet.catalog.prices.checks import CODES
from gpufleet.catalog.prices.imports import gpuhunt, plain, skypilot
from gpufleet.catalog.prices.imports.sheet import Origin, Sheet, name_of, read_content, sheets
from gpufleet.catalog.prices.row import PriceRow, check
from gpufleet.catalog.prices.store import Store, Summary
from gpufleet.errors import InputError

__all__ = ["FORMATS", "Loaded", "Origin", "bring", "known_codes", "load"]

READERS = {"skypilot": skypilot, "gpuhunt": gpuhunt, "plain": plain}
FORMATS = ("auto", *READERS)
LABELS = {"skypilot": "SkyPilot catalogue", "gpuhunt": "gpuhunt catalogue", "plain": ""}
BATCH = 5000  # rows to a transaction: what a killed import may have to read again


@dataclass(frozen=True)
class Loaded:
    """A file that was read whole and holds prices; nothing is stored yet. ``key`` tells it from every other."""

    name: str
    key: str
    rows: tuple[PriceRow, ...]


def load(path: Path, form: str = "auto", origin: Origin | None = None) -> Loaded:
    """Read a file's prices, each checked to be a price at all; a wrong one refuses the file."""
    given = origin or Origin()
    content = read_content(path)
    rows = tuple(_rows(path, content, form, given))
    if not rows:
        raise InputError("holds no prices", where=name_of(path))
    digest = hashlib.sha256(content).hexdigest()
    key = f"{digest},{form},{given.cloud},{given.as_of},{given.source}"
    return Loaded(name_of(path), key, rows)


def bring(store: Store, loaded: Loaded, accept: Iterable[str] = ()) -> Summary:
    """Bring a file's prices into the store; the same file again goes on where it was killed, or changes nothing."""
    accepted = sorted(set(accept))
    run = store.begin(f"import {Path(loaded.name).name}", ",".join([loaded.key, *accepted]))
    if run.finished_at is None:
        for at in range(0, len(loaded.rows), BATCH):
            name, rows = f"rows {at} to {at + BATCH}", loaded.rows[at : at + BATCH]
            if name not in run.batches:  # another size of batch has other names: read again, never left out
                run = store.write_batch(name, rows, run)
    return store.commit(run, accepted)


def known_codes(codes: Iterable[str]) -> None:
    """Refuse to accept what no check is called."""
    for code in codes:
        if code not in CODES:
            raise InputError(
                f"no check is called {code!r}", where="--accept", remedy=f"one of {', '.join(CODES)}"
            )


def _rows(path: Path, content: bytes, form: str, given: Origin) -> Iterator[PriceRow]:
    for sheet in sheets(path, content):
        kind = form if form != "auto" else _format(sheet)
        source = given.source or f"{LABELS[kind]} {name_of(Path(path.name))}".strip()
        yield from map(
            check, READERS[kind].read(sheet, replace(given, source=source, told=bool(given.source)))
        )


def _format(sheet: Sheet) -> str:
    found = [name for name, reader in READERS.items() if reader.fits(sheet)]
    if found:
        return found[0]
    raise InputError(
        "is no price catalogue that we know",
        where=f"{sheet.name}:1",
        remedy="it needs cloud, region, machine, purchase, usd_per_hour, as_of, source",
    )
