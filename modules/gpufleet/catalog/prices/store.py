"""The local price store: one SQLite file, written by imports and refreshes, read by every price look-up.

Rows are staged batch by batch, each batch in one transaction together with the record that it is done, and
become visible together when their run is committed. A killed import changes no price; the next run of the same key
reuses its batches.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gpufleet.catalog import data_file
from gpufleet.catalog.entry import Machine, MachineAccelerators
from gpufleet.catalog.prices import schema, size_check
from gpufleet.catalog.prices.check import PriceCheckContext, PriceFinding, check_prices
from gpufleet.catalog.prices.check_context import PriceCheckContextLoader
from gpufleet.catalog.prices.reader import build_damaged_store_error
from gpufleet.catalog.prices.row import MachineFacts, PriceRow, validate_price_row
from gpufleet.errors import EnvironmentFault, InputError

BUSY_TIMEOUT_S = 30.0  # another import locks the file for seconds at most
GROUP_ROWS = 5000  # rows that are checked together at least; a family of machines is never divided
NO_FACTS = MachineFacts()
GroupObserver = Callable[
    [list[PriceRow], PriceCheckContext], None
]  # accepted rows, and what was known before
PRICE_COLUMNS = (
    "cloud", "region", "item", "purchase", "upfront", "dated", "source", "kind", "unit", "as_of", "usd_per_hour",
    "upfront_usd", "confidence",
)  # fmt: skip
FACT_COLUMNS = ("vcpus", "memory_gib", "arch", "accelerator", "accelerators", "accelerator_memory_gib")
STAGED_COLUMNS = (*PRICE_COLUMNS, "offered", *FACT_COLUMNS, "place")


@dataclass(frozen=True)
class ImportRun:
    """One import or refresh. ``batches`` are those already staged; ``finished_at`` is None until committed."""

    id: int
    source: str
    key: str
    started_at: str
    finished_at: str | None
    batches: frozenset[str]


@dataclass(frozen=True)
class ImportRunSummary:
    """The result of a committed run: rows ``imported``, of them ``unchanged``, rows set apart, findings."""

    run: ImportRun
    imported: int
    unchanged: int
    set_apart: int
    findings: tuple[PriceFinding, ...] = ()
    repeated: bool = False  # the run was committed before: nothing changed


class PriceStore:
    """The prices of one file. Use it as a context manager, or call ``close_connection``."""

    def __init__(self, path: Path, *, create: bool = True) -> None:
        self.path = path
        self.connection = open_store_connection(path, create=create)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close_connection()

    def close_connection(self) -> None:
        """Close the file."""
        self.connection.close()

    def begin_or_resume_run(self, source: str, key: str) -> ImportRun:
        """Start the run of that key, or return the one that was started before, finished or open.

        ``key`` identifies the input: a file's digest, the day of a refresh. Skip the batches that the run already has.
        """
        with self._transaction():
            self.connection.execute(
                "INSERT OR IGNORE INTO runs (source, key, started_at) VALUES (?, ?, ?)",
                (source, key, _timestamp()),
            )
        return self._read_run("source = ? AND key = ?", source, key)

    def find_unfinished_run(self, source: str) -> ImportRun | None:
        """Return the latest open run of a source."""
        where = "source = ? AND finished_at IS NULL ORDER BY id DESC"
        row = self.connection.execute(f"SELECT id FROM runs WHERE {where}", (source,)).fetchone()  # noqa: S608
        return self._read_run("id = ?", row[0]) if row else None

    def stage_batch(self, name: str, rows: Iterable[PriceRow], run: ImportRun) -> ImportRun:
        """Stage the rows of one batch (a page, a region) in one transaction; a repeated batch is replaced."""
        staged_rows = [(run.id, *_staged_values(validate_price_row(row))) for row in rows]
        marks = ", ".join("?" * (len(STAGED_COLUMNS) + 1))
        with self._transaction():
            if self._is_finished(run):
                return self._read_run("id = ?", run.id)
            self.connection.executemany(
                f"INSERT OR REPLACE INTO staged (run, {', '.join(STAGED_COLUMNS)}) VALUES ({marks})",  # noqa: S608
                staged_rows,
            )
            self.connection.execute(
                "INSERT OR REPLACE INTO batches VALUES (?, ?, ?)", (run.id, name, len(staged_rows))
            )
        return replace(run, batches=run.batches | {name})

    def commit_run(
        self, run: ImportRun, accept: Iterable[str] = (), observe: GroupObserver | None = None
    ) -> ImportRunSummary:
        """Check the run's rows and make those without findings visible, in one transaction.

        Rows with a finding are set apart and never used as prices, unless its code is in ``accept``. Memory is bounded:
        families of machines are checked group by group. ``observe`` sees each group before it becomes visible.
        """
        accepted_codes, counts, findings = set(accept), [0, 0, 0], list[PriceFinding]()
        loader = PriceCheckContextLoader(self.connection)
        with self._transaction():
            if self._is_finished(run):
                return self._read_summary(run, repeated=True)
            for rows in self._iterate_checked_groups(run):
                context = loader.load_context(rows)
                group_findings = list(check_prices(rows, context))
                refused = [finding for finding in group_findings if finding.code not in accepted_codes]
                rows_set_apart = {finding.row for finding in refused}
                accepted_rows = [row for row in rows if row not in rows_set_apart]
                if observe:
                    observe(accepted_rows, context)
                self._set_rows_apart(run, rows, refused)
                unchanged = self._insert_rows(run, accepted_rows)
                added = (len(accepted_rows), unchanged, len(rows_set_apart))
                counts = [total + number for total, number in zip(counts, added, strict=True)]
                findings += group_findings
            self._rebuild_current_prices()
            self._mark_finished(run, *counts)
        return self._read_summary(run, findings=tuple(findings))

    def _iterate_checked_groups(self, run: ImportRun) -> Iterator[list[PriceRow]]:
        """Yield the staged rows; families of machines and parts are never divided."""
        self.connection.create_function("checked_group", 3, size_check.checked_group, deterministic=True)
        query = (
            f"SELECT {', '.join(STAGED_COLUMNS)} FROM staged WHERE run = ?"  # noqa: S608 - our own column names
            " ORDER BY cloud, checked_group(cloud, kind, item), item, region, purchase, upfront, dated, source"
        )
        rows = map(_row_from_columns, self.connection.execute(query, (run.id,)))
        group: list[PriceRow] = []
        for _, family in groupby(
            rows, lambda row: (row.cloud, size_check.checked_group(row.cloud, row.kind, row.item))
        ):
            group += family
            if len(group) >= GROUP_ROWS:
                yield group
                group = []
        if group:
            yield group

    def count_staged_rows(self, run: ImportRun) -> int:
        """Return how many rows a run has staged; none once it is committed."""
        query = "SELECT count(*) FROM staged WHERE run = ?"
        return int(self.connection.execute(query, (run.id,)).fetchone()[0])

    def delete_unfinished_run(self, run: ImportRun) -> None:
        """Delete an open run and its staged rows."""
        with self._transaction():
            if self._is_finished(run):
                return
            for data_file, column in (("staged", "run"), ("batches", "run"), ("runs", "id")):
                self.connection.execute(f"DELETE FROM {data_file} WHERE {column} = ?", (run.id,))  # noqa: S608

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Lock the file for one transaction."""
        self._execute("BEGIN IMMEDIATE")
        try:
            yield
            self._execute("COMMIT")
        except BaseException as error:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            if type(error) is sqlite3.DatabaseError:
                raise build_damaged_store_error(self.path, error) from None
            if isinstance(error, sqlite3.OperationalError):
                raise build_store_write_error(self.path, error) from None
            raise

    def _execute(self, statement: str) -> None:
        try:
            self.connection.execute(statement)
        except sqlite3.OperationalError as error:
            raise build_store_write_error(self.path, error) from None

    def _read_run(self, where: str, *values: Any) -> ImportRun:
        row = self.connection.execute(
            f"SELECT id, source, key, started_at, finished_at FROM runs WHERE {where}",  # noqa: S608 - our own column names
            values,
        ).fetchone()
        if row is None:
            raise InputError(
                "the run is not in the price store",
                where=str(self.path),
                remedy="start it with begin_or_resume_run",
            )
        names = self.connection.execute("SELECT name FROM batches WHERE run = ?", (row[0],))
        number, source, key, started, finished = row
        return ImportRun(number, source, key, started, finished, frozenset(name for (name,) in names))

    def _is_finished(self, run: ImportRun) -> bool:
        return self._read_run("id = ?", run.id).finished_at is not None

    def _insert_rows(self, run: ImportRun, rows: list[PriceRow]) -> int:
        before = self.connection.total_changes
        names, marks = ", ".join(PRICE_COLUMNS), ", ".join("?" * len(PRICE_COLUMNS))
        changed = "excluded.usd_per_hour <> usd_per_hour OR excluded.upfront_usd <> upfront_usd"
        self.connection.executemany(
            f"INSERT INTO prices ({names}, run) VALUES ({marks}, ?)"  # noqa: S608 - our own column names
            " ON CONFLICT DO UPDATE SET usd_per_hour = excluded.usd_per_hour, upfront_usd = excluded.upfront_usd,"
            " confidence = excluded.confidence, unit = excluded.unit, as_of = excluded.as_of, run = excluded.run"
            f" WHERE {changed}",
            ((*_staged_values(row)[: len(PRICE_COLUMNS)], run.id) for row in rows),
        )
        unchanged = len(rows) - (self.connection.total_changes - before)
        self._write_machine_facts(rows)
        return unchanged

    def _rebuild_current_prices(self) -> None:
        self.connection.execute("DELETE FROM current")
        self.connection.execute(schema.REBUILD_CURRENT)

    def _write_machine_facts(self, rows: list[PriceRow]) -> None:
        facts = {
            (row.cloud, row.item): row
            for row in rows
            if row.facts and row.facts != NO_FACTS and row.kind == "machine"
        }
        self.connection.executemany(
            "INSERT OR REPLACE INTO machines VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *((*key, *_fact_values(row.facts), row.source, row.as_of) for key, row in facts.items()),
                *(
                    _machine_values(machine)
                    for machine in data_file.load_machines().values()
                    if machine.cloud != "onprem"
                ),  # the catalogue takes precedence over a price list
            ),
        )

    def _set_rows_apart(self, run: ImportRun, rows: list[PriceRow], findings: list[PriceFinding]) -> None:
        keys = "cloud = ? AND item = ? AND region = ? AND purchase = ? AND upfront = ? AND dated = ? AND source = ?"
        self.connection.executemany(f"DELETE FROM apart WHERE {keys}", map(_row_key, rows))  # noqa: S608
        self.connection.executemany(
            f"DELETE FROM prices WHERE {keys}",  # noqa: S608 - our own column names
            (_row_key(finding.row) for finding in findings),
        )
        self.connection.executemany(
            "INSERT OR REPLACE INTO apart (cloud, item, region, purchase, upfront, dated, source, code, reason,"
            " usd_per_hour, place, run) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            ((*_row_key(f.row), f.code, f.reason, f.row.usd_per_hour, f.row.where, run.id) for f in findings),
        )

    def _mark_finished(self, run: ImportRun, imported: int, unchanged: int, set_apart: int) -> None:
        self.connection.execute("DELETE FROM staged WHERE run = ?", (run.id,))
        self.connection.execute(
            "UPDATE runs SET finished_at = ?, taken = ?, unchanged = ?, set_apart = ? WHERE id = ?",
            (_timestamp(), imported, unchanged, set_apart, run.id),
        )

    def _read_summary(
        self, run: ImportRun, findings: tuple[PriceFinding, ...] = (), *, repeated: bool = False
    ) -> ImportRunSummary:
        counts = "SELECT taken, unchanged, set_apart FROM runs WHERE id = ?"
        imported, unchanged, set_apart = self.connection.execute(counts, (run.id,)).fetchone()
        return ImportRunSummary(
            self._read_run("id = ?", run.id), imported, unchanged, set_apart, findings, repeated
        )


def open_store_connection(path: Path, *, create: bool) -> sqlite3.Connection:
    """Open a store; create a missing one if ``create``."""
    if create:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise EnvironmentFault(f"{path.parent} cannot be created: {error.strerror}") from None
    mode = "rwc" if create else "rw"
    try:
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={mode}", timeout=BUSY_TIMEOUT_S, isolation_level=None, uri=True
        )
        schema.migrate_store_schema(connection, str(path))
    except sqlite3.OperationalError as error:
        hint = (
            "free some space on its disk, then run it again"
            if "full" in str(error)
            else "see GPUFLEET_PRICES"
        )
        raise EnvironmentFault(f"{path} cannot be opened: {error}", hint=hint) from None
    return connection


def build_store_write_error(path: Path, error: sqlite3.OperationalError) -> EnvironmentFault:
    hint = "check that no other import is running and that the disk is not full"
    return EnvironmentFault(f"{path} cannot be written: {error}", hint=hint)


def _timestamp() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _row_key(row: PriceRow) -> tuple[str, ...]:
    return (row.cloud, row.item, row.region, row.purchase, row.upfront, row.earliest_date_text, row.source)


def _machine_values(machine: Machine) -> tuple[Any, ...]:
    accelerator = machine.accelerators[0] if machine.accelerators else MachineAccelerators("", 0, 0.0)
    return (
        machine.cloud, machine.name, machine.vcpus, machine.memory_gib, machine.arch, accelerator.model,
        machine.accelerator_count, accelerator.memory_gib, machine.source, machine.as_of,
    )  # fmt: skip


def _fact_values(facts: MachineFacts | None) -> tuple[Any, ...]:
    known_facts = facts or NO_FACTS
    return tuple(getattr(known_facts, name) for name in FACT_COLUMNS)


def _staged_values(row: PriceRow) -> tuple[Any, ...]:
    return (
        row.cloud, row.region, row.item, row.purchase, row.upfront, row.earliest_date_text, row.source, row.kind,
        row.unit, row.as_of, row.usd_per_hour, row.upfront_usd, row.effective_confidence(), row.offered,
        *(_fact_values(row.facts) if row.facts else (None,) * 6), row.where,
    )  # fmt: skip


def _row_from_columns(columns: tuple[Any, ...]) -> PriceRow:
    values = dict(zip(STAGED_COLUMNS, columns, strict=True))
    facts = {name: values.pop(name) for name in FACT_COLUMNS}
    offered, place, _ = values.pop("offered"), values.pop("place"), values.pop("dated")
    return PriceRow(
        **values,
        offered=None if offered is None else bool(offered),
        where=place,
        facts=None if facts["arch"] is None else MachineFacts(**facts),
    )
