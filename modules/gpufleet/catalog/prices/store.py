"""The local price store: one SQLite file, written by imports and refreshes, read by every price look-up.

Rows are staged batch by batch, each batch in one transaction together with the record that it is done, and
become visible all at once when their run is committed. Whoever is killed in between leaves the prices as they
were; the next run of the same key finds its batches and goes on.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gpufleet.catalog import table
from gpufleet.catalog.model import AcceleratorCount, Machine
from gpufleet.catalog.prices import schema
from gpufleet.catalog.prices.checks import Finding, Known, examine
from gpufleet.catalog.prices.known import of_store
from gpufleet.catalog.prices.reader import damaged
from gpufleet.catalog.prices.row import Facts, PriceRow, check
from gpufleet.errors import EnvironmentFault, InputError

BUSY_S = 30.0  # another import holds the file for seconds at most
NO_FACTS = Facts()
PRICES = (
    "cloud", "region", "item", "purchase", "upfront", "dated", "source", "kind", "unit", "as_of", "usd_per_hour",
    "upfront_usd", "confidence",
)  # fmt: skip
FACTS = ("vcpus", "memory_gib", "arch", "accelerator", "accelerators", "accelerator_memory_gib")
STAGED = (*PRICES, "offered", *FACTS, "place")


@dataclass(frozen=True)
class Run:
    """One import or refresh. ``batches`` are those already staged; ``finished_at`` is None until committed."""

    id: int
    source: str
    key: str
    started_at: str
    finished_at: str | None
    batches: frozenset[str]


@dataclass(frozen=True)
class Summary:
    """What a committed run brought: rows ``taken``, of them ``unchanged``, and those set apart with why."""

    run: Run
    taken: int
    unchanged: int
    apart: int
    findings: tuple[Finding, ...] = ()
    repeated: bool = False  # the run had been committed before: nothing was done now


class Store:
    """The prices of one file. Use it as a context manager, or call ``close``."""

    def __init__(self, path: Path, *, create: bool = True) -> None:
        self.path = path
        self.link = connect(path, create=create)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        self.link.close()

    def begin(self, source: str, key: str) -> Run:
        """Start the run of that key, or find the one that was started before: finished, or to be resumed.

        ``key`` says what is read: a file's digest, a refresh's day. Skip the batches that the run already has.
        """
        with self._writing():
            self.link.execute(
                "INSERT OR IGNORE INTO runs (source, key, started_at) VALUES (?, ?, ?)", (source, key, _now())
            )
        return self._run("source = ? AND key = ?", source, key)

    def resume(self, source: str) -> Run | None:
        """Return the latest run of a source that was begun and never committed."""
        where = "source = ? AND finished_at IS NULL ORDER BY id DESC"
        found = self.link.execute(f"SELECT id FROM runs WHERE {where}", (source,)).fetchone()  # noqa: S608
        return self._run("id = ?", found[0]) if found else None

    def write_batch(self, name: str, rows: Iterable[PriceRow], run: Run) -> Run:
        """Stage the rows of one batch (a page, a region) in one transaction; writing it again replaces it."""
        staged = [(run.id, *_staged(check(row))) for row in rows]
        marks = ", ".join("?" * (len(STAGED) + 1))
        with self._writing():
            if self._finished(run):
                return self._run("id = ?", run.id)
            self.link.executemany(
                f"INSERT OR REPLACE INTO staged (run, {', '.join(STAGED)}) VALUES ({marks})",  # noqa: S608
                staged,
            )
            self.link.execute("INSERT OR REPLACE INTO batches VALUES (?, ?, ?)", (run.id, name, len(staged)))
        return replace(run, batches=run.batches | {name})

    def commit(self, run: Run, accept: Iterable[str] = ()) -> Summary:
        """Judge the run's rows and make the good ones visible, all in one transaction.

        Rows with a finding are set apart and never priced by, unless its code is in ``accept``.
        """
        with self._writing():
            if self._finished(run):
                return self._summary(run, repeated=True)
            rows = list(self.staged(run))
            known = self._known(rows)
            findings = tuple(examine(rows, known))
            refused = [each for each in findings if each.code not in set(accept)]
            apart = {each.row for each in refused}
            taken = [row for row in rows if row not in apart]
            self._set_apart(run, rows, refused)
            unchanged = self._publish(run, taken)
            self._finish(run, len(taken), unchanged, len(apart))
        return self._summary(run, findings=findings)

    def abandon(self, run: Run) -> None:
        """Forget a run that was not committed, and what it staged."""
        with self._writing():
            if self._finished(run):
                return
            for table, column in (("staged", "run"), ("batches", "run"), ("runs", "id")):
                self.link.execute(f"DELETE FROM {table} WHERE {column} = ?", (run.id,))  # noqa: S608

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Hold the file alone; all or nothing of what is done meanwhile stays."""
        self._execute("BEGIN IMMEDIATE")
        try:
            yield
            self._execute("COMMIT")
        except BaseException as error:
            if self.link.in_transaction:
                self.link.execute("ROLLBACK")
            if type(error) is sqlite3.DatabaseError:
                raise damaged(self.path, error) from None
            if isinstance(error, sqlite3.OperationalError):
                raise _unwritable(self.path, error) from None
            raise

    def _execute(self, statement: str) -> None:
        try:
            self.link.execute(statement)
        except sqlite3.OperationalError as error:
            raise _unwritable(self.path, error) from None

    def _run(self, where: str, *values: Any) -> Run:
        row = self.link.execute(
            f"SELECT id, source, key, started_at, finished_at FROM runs WHERE {where}",  # noqa: S608 - our words
            values,
        ).fetchone()
        if row is None:
            raise InputError("that run is not in the store", where=str(self.path), remedy="begin it")
        names = self.link.execute("SELECT name FROM batches WHERE run = ?", (row[0],))
        number, source, key, started, finished = row
        return Run(number, source, key, started, finished, frozenset(name for (name,) in names))

    def _finished(self, run: Run) -> bool:
        return self._run("id = ?", run.id).finished_at is not None

    def staged(self, run: Run) -> Iterator[PriceRow]:
        """Yield the rows that a run has staged; none once it is committed."""
        query = f"SELECT {', '.join(STAGED)} FROM staged WHERE run = ?"  # noqa: S608 - our own column names
        return map(_row, self.link.execute(query, (run.id,)))

    def _known(self, rows: list[PriceRow]) -> Known:
        return of_store(self.link, {(row.cloud, row.item) for row in rows})

    def _publish(self, run: Run, rows: list[PriceRow]) -> int:
        before = self.link.total_changes
        names, marks = ", ".join(PRICES), ", ".join("?" * len(PRICES))
        changed = "excluded.usd_per_hour <> usd_per_hour OR excluded.upfront_usd <> upfront_usd"
        self.link.executemany(
            f"INSERT INTO prices ({names}, run) VALUES ({marks}, ?)"  # noqa: S608 - our own column names
            " ON CONFLICT DO UPDATE SET usd_per_hour = excluded.usd_per_hour, upfront_usd = excluded.upfront_usd,"
            " confidence = excluded.confidence, unit = excluded.unit, as_of = excluded.as_of, run = excluded.run"
            f" WHERE {changed}",
            ((*_staged(row)[: len(PRICES)], run.id) for row in rows),
        )
        unchanged = len(rows) - (self.link.total_changes - before)
        self._describe(rows)
        self.link.execute("DELETE FROM current")
        self.link.execute(schema.REBUILD)
        return unchanged

    def _describe(self, rows: list[PriceRow]) -> None:
        facts = {(row.cloud, row.item): row for row in rows if row.facts and row.kind == "machine"}
        self.link.executemany(
            "INSERT OR REPLACE INTO machines VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *((*key, *_facts(row.facts), row.source, row.as_of) for key, row in facts.items()),
                *(
                    _described(each) for each in table.machines().values() if each.cloud != "onprem"
                ),  # ours outrank a price list's
            ),
        )

    def _set_apart(self, run: Run, rows: list[PriceRow], findings: list[Finding]) -> None:
        keys = "cloud = ? AND item = ? AND region = ? AND purchase = ? AND upfront = ? AND dated = ? AND source = ?"
        self.link.executemany(f"DELETE FROM apart WHERE {keys}", map(_key, rows))  # noqa: S608
        self.link.executemany(f"DELETE FROM prices WHERE {keys}", (_key(each.row) for each in findings))  # noqa: S608
        self.link.executemany(
            "INSERT OR REPLACE INTO apart (cloud, item, region, purchase, upfront, dated, source, code, reason,"
            " usd_per_hour, place, run) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                (*_key(each.row), each.code, each.reason, each.row.usd_per_hour, each.row.where, run.id)
                for each in findings
            ),
        )

    def _finish(self, run: Run, taken: int, unchanged: int, apart: int) -> None:
        self.link.execute("DELETE FROM staged WHERE run = ?", (run.id,))
        self.link.execute(
            "UPDATE runs SET finished_at = ?, taken = ?, unchanged = ?, set_apart = ? WHERE id = ?",
            (_now(), taken, unchanged, apart, run.id),
        )

    def _summary(self, run: Run, findings: tuple[Finding, ...] = (), *, repeated: bool = False) -> Summary:
        counts = "SELECT taken, unchanged, set_apart FROM runs WHERE id = ?"
        taken, unchanged, apart = self.link.execute(counts, (run.id,)).fetchone()
        return Summary(self._run("id = ?", run.id), taken, unchanged, apart, findings, repeated)


def connect(path: Path, *, create: bool) -> sqlite3.Connection:
    """Open a store; one that is not there is made where ``create`` says so."""
    if create:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise EnvironmentFault(f"{path.parent} cannot be made: {error.strerror}") from None
    mode = "rwc" if create else "rw"
    try:
        link = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={mode}", timeout=BUSY_S, isolation_level=None, uri=True
        )
        schema.prepare(link, str(path))
    except sqlite3.OperationalError as error:
        raise EnvironmentFault(f"{path} cannot be opened: {error}", hint="see GPUFLEET_PRICES") from None
    return link


def _unwritable(path: Path, error: sqlite3.OperationalError) -> EnvironmentFault:
    hint = "is another import running, is the disk full?"
    return EnvironmentFault(f"{path} cannot be written: {error}", hint=hint)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _key(row: PriceRow) -> tuple[str, ...]:
    return (row.cloud, row.item, row.region, row.purchase, row.upfront, row.dated, row.source)


def _described(machine: Machine) -> tuple[Any, ...]:
    card = machine.accelerators[0] if machine.accelerators else AcceleratorCount("", 0, 0.0)
    return (
        machine.cloud, machine.name, machine.vcpus, machine.memory_gib, machine.arch, card.model, machine.cards,
        card.memory_gib, machine.source, machine.as_of,
    )  # fmt: skip


def _facts(facts: Facts | None) -> tuple[Any, ...]:
    held = facts or NO_FACTS
    return (
        held.vcpus, held.memory_gib, held.arch, held.accelerator, held.accelerators, held.accelerator_memory_gib
    )  # fmt: skip


def _staged(row: PriceRow) -> tuple[Any, ...]:
    return (
        row.cloud, row.region, row.item, row.purchase, row.upfront, row.dated, row.source, row.kind, row.unit,
        row.as_of, row.usd_per_hour, row.upfront_usd, row.trusted(), row.offered,
        *(_facts(row.facts) if row.facts else (None,) * 6), row.where,
    )  # fmt: skip


def _row(found: tuple[Any, ...]) -> PriceRow:
    held = dict(zip(STAGED, found, strict=True))
    facts = {name: held.pop(name) for name in FACTS}
    offered, place, _ = held.pop("offered"), held.pop("place"), held.pop("dated")
    return PriceRow(
        **held,
        offered=None if offered is None else bool(offered),
        where=place,
        facts=None if facts["arch"] is None else Facts(**facts),
    )
