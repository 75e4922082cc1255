"""Import price catalogues from files: a file in, price rows out, each with its line.

One file per format: ``skypilot`` (vms.csv of SkyPilot's catalogue), ``gpuhunt`` (its catalogue as CSV, zip or JSON),
``plain`` (our own columns, which also read exports that call a machine ``instance_type``). Readers return the
rows as they are; the checks judge them when the run is committed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from gpufleet.catalog.prices.check import CODES
from gpufleet.catalog.prices.imports import gpufleet_format, gpuhunt, skypilot
from gpufleet.catalog.prices.imports.sheet import (
    PriceOrigin,
    PriceSheet,
    format_input_file_name,
    read_file_or_stdin,
    read_price_sheets,
)
from gpufleet.catalog.prices.row import PriceRow, validate_price_row
from gpufleet.catalog.prices.store import ImportRunSummary, PriceStore
from gpufleet.errors import InputError

__all__ = ["FORMATS", "PriceOrigin", "check_finding_codes", "import_prices", "load_price_file"]

READERS = {"skypilot": skypilot, "gpuhunt": gpuhunt, "plain": gpufleet_format}
FORMATS = ("auto", *READERS)
SOURCE_LABELS = {"skypilot": "SkyPilot catalogue", "gpuhunt": "gpuhunt catalogue", "plain": ""}
BATCH_ROWS = 5000  # rows per transaction: a killed import repeats at most these


@dataclass(frozen=True)
class LoadedPriceFile:
    """The prices of a complete file, not yet stored. ``key`` identifies the content."""

    name: str
    key: str
    rows: tuple[PriceRow, ...]


def load_price_file(
    path: Path, format_name: str = "auto", origin: PriceOrigin | None = None
) -> LoadedPriceFile:
    """Return the prices of a file; raise InputError if any row is not a valid price."""
    known_origin = origin or PriceOrigin()
    content = read_file_or_stdin(path)
    rows = tuple(_read_rows(path, content, format_name, known_origin))
    if not rows:
        raise InputError("contains no prices", where=format_input_file_name(path))
    digest = hashlib.sha256(content).hexdigest()
    key = f"{digest},{format_name},{known_origin.cloud},{known_origin.as_of},{known_origin.source}"
    return LoadedPriceFile(format_input_file_name(path), key, rows)


def import_prices(
    store: PriceStore, price_file: LoadedPriceFile, accept: Iterable[str] = ()
) -> ImportRunSummary:
    """Import a file's prices into the store; the same file again resumes a killed import or changes nothing."""
    accepted = sorted(set(accept))
    run = store.begin_or_resume_run(
        f"import {Path(price_file.name).name}", ",".join([price_file.key, *accepted])
    )
    if run.finished_at is None:
        for at in range(0, len(price_file.rows), BATCH_ROWS):
            name, rows = f"rows {at} to {at + BATCH_ROWS}", price_file.rows[at : at + BATCH_ROWS]
            if (
                name not in run.batches
            ):  # another batch size has other names: such rows are read again, never left out
                run = store.stage_batch(name, rows, run)
    return store.commit_run(run, accepted)


def check_finding_codes(codes: Iterable[str]) -> None:
    """Raise InputError for a code that no check has."""
    for code in codes:
        if code not in CODES:
            raise InputError(
                f"no check has the code {code!r}",
                where="--accept",
                remedy=f"use a finding code: {', '.join(CODES)}",
            )


def _read_rows(path: Path, content: bytes, format_name: str, origin: PriceOrigin) -> Iterator[PriceRow]:
    for sheet in read_price_sheets(path, content):
        sheet_format = format_name if format_name != "auto" else _detect_format(sheet)
        source = (
            origin.source
            or f"{SOURCE_LABELS[sheet_format]} {format_input_file_name(Path(path.name))}".strip()
        )
        yield from map(
            validate_price_row,
            READERS[sheet_format].read_price_rows(
                sheet, replace(origin, source=source, is_source_given=bool(origin.source))
            ),
        )


def _detect_format(sheet: PriceSheet) -> str:
    matching_formats = [name for name, reader in READERS.items() if reader.can_read_sheet(sheet)]
    if matching_formats:
        return matching_formats[0]
    raise InputError(
        "is not a known price catalogue",
        where=f"{sheet.name}:1",
        remedy="it needs cloud, region, machine, purchase, usd_per_hour, as_of, source",
    )
