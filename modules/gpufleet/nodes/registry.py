"""The registry: what is known of every node, and the only place where a node's state changes.

Each method is one transaction, and ``transaction()`` joins several. A node is named by its id, its name or its
``rack/slot``.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from sqlalchemy import Connection, select, update

from gpufleet.nodes import (
    attempts,
    conflicts,
    database,
    fact_log,
    journal,
    part_ledger,
    query,
    revision,
    schema,
)
from gpufleet.nodes.bulk_write import upsert
from gpufleet.nodes.fact_log import RecordedFacts
from gpufleet.nodes.model import (
    BurnInResult,
    Node,
    NodeHistoryEntry,
    NodeObservation,
    SourceConflict,
    SourcedValue,
    SourceStatus,
    utc_now,
)
from gpufleet.nodes.part import ObservedFault, Part, PartObservation, RecordedAction
from gpufleet.nodes.reconcile import apply_source_reports
from gpufleet.nodes.source_report import ReportOutcome, SourceReport


class Registry:
    """Open the registry at a SQLAlchemy URL (``paths.registry_database_url()``), creating or migrating it first.

    >>> with Registry("sqlite:///registry.db") as registry:
    ...     registry.move_node("blade01", "retired", "sold")
    """

    def __init__(self, url: str) -> None:
        self._database = database.RegistryDatabase(url)
        self._thread = threading.local()

    @staticmethod
    def has_registry(url: str) -> bool:
        """Return True if there is a registry to read, without making one."""
        return database.database_exists(url)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._database.close()

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        if (connection := self._open_connection()) is not None:
            yield connection
            return
        with self._database.read_transaction() as connection:
            yield connection

    @contextmanager
    def _writing(self, at: datetime | None = None) -> Iterator[Connection]:
        with self.transaction(at):
            connection = self._open_connection()
            assert connection is not None  # noqa: S101 - the transaction has just set it
            yield connection

    def _open_connection(self) -> Connection | None:
        return getattr(self._thread, "connection", None)

    # Transactions and their order

    @contextmanager
    def transaction(self, at: datetime | None = None, revision_number: int | None = None) -> Iterator[int]:
        """Join what is called inside into one transaction: all of it happens, or nothing. Give its revision.

        The revision is newer than everything stored; ``revision_number`` is one
        that ``create_revision`` returned earlier.
        """
        with self._transaction(
            lambda connection: revision_number or revision.create_revision(connection, at or utc_now())
        ) as drawn:
            yield drawn

    @contextmanager
    def acting_as(self, actor: str | None) -> Iterator[None]:
        """Record ``actor`` as who made the changes inside, in this thread."""
        self._thread.actor = actor
        try:
            yield
        finally:
            self._thread.actor = None

    @contextmanager
    def transaction_of_past_event(
        self, run_id: str, at: datetime, previous_revision: int | None
    ) -> Iterator[int]:
        """Join calls as ``transaction`` does, for an event of ``run_id`` that is recorded later.

        Its revision follows ``previous_revision``, the run's event before it; else it comes before what the
        registry has of the run; else, for a run that the registry has never met, ``at`` decides.
        """

        def choose_revision(connection: Connection) -> int:
            if previous_revision is not None:
                return revision.insert_revision_after(connection, previous_revision, at)
            if (first := revision.find_first_revision_of_run(connection, run_id)) is not None:
                return revision.insert_revision_before(connection, first, at)
            return revision.insert_revision_by_time(connection, at)

        with self._transaction(choose_revision) as placed:
            yield placed

    @contextmanager
    def _transaction(self, choose: Callable[[Connection], int]) -> Iterator[int]:
        if (connection := self._open_connection()) is not None:
            yield revision.get_current_revision(connection)
            return
        with self._database.write_transaction() as connection:
            chosen = choose(connection)
            revision.set_current_revision(connection, chosen)
            journal.set_current_actor(connection, getattr(self._thread, "actor", None))
            self._thread.connection = connection
            try:
                yield chosen
            finally:
                self._thread.connection = None

    def create_revision(self, at: datetime | None = None) -> int:
        """Return a new revision for a transaction that writes later what is read from now on."""
        with self.transaction(at) as number:
            return number

    def find_event_revision(self, event_key: str) -> int | None:
        """Return the revision at which an event (``revision.hash_event_key``) was applied, None where it was not."""
        with self._reading() as connection:
            return revision.find_event_revision(connection, event_key)

    def record_applied_event(self, event_key: str, run_id: str) -> None:
        """Record that an event was applied, in the transaction that applies it."""
        with self._writing() as connection:
            revision.record_applied_event(connection, event_key, run_id)

    # Sources

    def apply_source_report(self, report: SourceReport) -> ReportOutcome:
        """Apply everything that one source reports to the registry."""
        return self.apply_source_reports([report])[0]

    def apply_source_reports(self, reports: Sequence[SourceReport]) -> Sequence[ReportOutcome]:
        """Apply the reports of several sources to the registry, all in one transaction."""
        if not reports:
            return []
        with self._writing(reports[0].observed_at) as connection:
            return apply_source_reports(connection, reports)

    def apply_observation(self, observation: NodeObservation) -> ReportOutcome:
        """Apply one observation; fields that it leaves out stay as they were."""
        return self.apply_source_report(
            SourceReport(observation.source, observation.observed_at, [observation], complete=False)
        )

    def record_source_failure(self, source: str, failure: str, when: datetime | None = None) -> None:
        """Record that a source did not answer; its last good report stays in force."""
        with self._writing(when) as connection:
            row = {"name": source, "failed_at": when or utc_now(), "failure": journal.trim_reason(failure)}
            upsert(connection, schema.source, [row])

    # Reading

    def list_nodes(self) -> Sequence[Node]:
        """Return every node, by cloud, rack, slot and name."""
        with self._reading() as connection:
            return query.load_nodes(connection)

    def get_node(self, node: str) -> Node:
        """Return one node; InputError when there is none, or more than one of that name."""
        with self._reading() as connection:
            return query.load_nodes(connection, [query.find_node_row(connection, node)])[0]

    def list_node_values(self, node: str) -> Sequence[SourcedValue]:
        """Return every value known of a node, each with its source and time."""
        with self._reading() as connection:
            return query.load_sourced_values(connection, query.find_node_row(connection, node).id)

    def list_values_by_node(self, node_ids: Sequence[str]) -> Mapping[str, Sequence[SourcedValue]]:
        """Return every value of many nodes, by node id, each with its source and the time it was given."""
        with self._reading() as connection:
            return query.load_values_by_node(connection, node_ids)

    def list_newest_values(self, key: str) -> Mapping[str, Any]:
        """Return the newest value of a key, such as ``observed.drivers``, by node id."""
        with self._reading() as connection:
            return query.load_newest_values(connection, key)

    def list_verdict_reasons(self) -> Mapping[str, str]:
        """Return what the registry wrote down with each node's present verdict, by node id."""
        with self._reading() as connection:
            return query.load_verdict_reasons(connection)

    def list_node_history(self, node: str) -> Sequence[NodeHistoryEntry]:
        """Return what happened to a node, oldest first."""
        with self._reading() as connection:
            return query.load_node_history(connection, query.find_node_row(connection, node).id)

    def list_state_history(self) -> Mapping[str, Sequence[NodeHistoryEntry]]:
        """Return what began each state of each node, oldest first, by node id."""
        with self._reading() as connection:
            return query.load_state_history(connection)

    def list_burn_in_results(
        self, node: str | None = None, attempt: str | None = None, since: datetime | None = None
    ) -> Sequence[BurnInResult]:
        """Return burn-in results with their raw records, oldest first."""
        with self._reading() as connection:
            node_id = query.find_node_row(connection, node).id if node else None
            return query.load_burn_in_results(connection, node_id, attempt, since)

    def list_source_statuses(self) -> Sequence[SourceStatus]:
        """Return when each source last answered, and what failed since."""
        with self._reading() as connection:
            return query.load_source_statuses(connection)

    def list_open_conflicts(self) -> Sequence[SourceConflict]:
        """Return the unresolved contradictions between sources."""
        with self._reading() as connection:
            return conflicts.load_open_conflicts(connection)

    def list_facts(
        self, nodes: Sequence[str] | None = None, changed_since: datetime | None = None
    ) -> Sequence[RecordedFacts]:
        """Return the kept answers of some nodes (ids, names) or all, oldest first; or of those that changed since."""
        with self._reading() as connection:
            ids = None if nodes is None else [query.find_node_row(connection, node).id for node in nodes]
            return fact_log.load_facts(connection, ids, changed_since)

    def list_history_since(self, since: datetime) -> Sequence[NodeHistoryEntry]:
        """Return what happened to all nodes from a moment on, oldest first."""
        with self._reading() as connection:
            return query.load_history_since(connection, since)

    def record_facts(self, node: str, text: str, when: datetime | None = None) -> None:
        """Keep a node's answer to a probe as it came."""
        moment = when or utc_now()
        with self._writing(moment) as connection:
            fact_log.record_facts(connection, query.find_node_row(connection, node).id, text, moment)

    # A node's life

    def move_node(self, node: str, new_state: str, reason: str, attempt: str | None = None) -> None:
        """Move a node to another state; InputError, naming the legal ones, when the table forbids it."""
        with self._writing() as connection:
            row = query.find_node_row(connection, node)
            journal.move_node(connection, row, new_state, reason, at=utc_now(), attempt=attempt)

    def advance_node(
        self,
        node: str,
        target_state: str,
        reason: str,
        when: datetime | None = None,
        attempt: str | None = None,
    ) -> bool:
        """Move a new node forward to ``target_state`` (at most ``burn_in``); return True if it moved."""
        with self._writing(when) as connection:
            row = query.find_node_row(connection, node)
            after = attempts.advance_node(
                connection, row, target_state, reason, at=when or utc_now(), attempt=attempt
            )
            return bool(after.state != row.state)

    def retire_node(self, node: str, reason: str) -> None:
        """End a node's life: its history stays, its address is free for another."""
        with self._writing() as connection:
            row = query.find_node_row(connection, node)
            journal.move_node(connection, row, "retired", reason, at=utc_now())
            connection.execute(update(schema.node).where(schema.node.c.id == row.id).values(address=None))

    def set_node_hold(self, node: str, kind: str, reason: str) -> bool:
        """Set a hold, which blocks use without changing the state; return True if it is new."""
        with self._writing() as connection:
            return journal.set_node_hold(
                connection, query.find_node_row(connection, node).id, kind, reason, utc_now()
            )

    def release_node_hold(self, node: str, kind: str, reason: str) -> bool:
        """Release a hold; return True if there was one."""
        with self._writing() as connection:
            return journal.release_node_hold(
                connection, query.find_node_row(connection, node).id, kind, reason, utc_now()
            )

    def record_reachability(
        self, node: str, reachable: bool, when: datetime | None = None, detail: str | None = None
    ) -> bool:
        """Record whether a node answered; an older answer changes nothing. Return True if the value changed."""
        moment = when or utc_now()
        with self._writing(moment) as connection:
            row = query.find_node_row(connection, node)
            number = revision.get_current_revision(connection)
            if row.reachable_revision > number:
                return False
            reason = journal.trim_reason(detail) if detail else None
            change = {
                "reachable": reachable,
                "reachable_at": moment,
                "reachable_detail": reason,
                "reachable_revision": number,
            }
            connection.execute(update(schema.node).where(schema.node.c.id == row.id).values(change))
            has_changed = row.reachable is not reachable
            if has_changed:
                event = "reachable" if reachable else "unreachable"
                journal.add_history_entry(connection, row.id, moment, event, reason or "answered")
            return has_changed

    def is_transaction_newer_than_state(self, node: str) -> bool:
        """Return True if this transaction is not older than what led to the node's state."""
        with self._writing() as connection:
            return bool(
                query.find_node_row(connection, node).state_revision
                <= revision.get_current_revision(connection)
            )

    def add_history_entry_once(
        self, node: str, event: str, reason: str, when: datetime | None = None
    ) -> None:
        """Add a line to a node's history, once even if it is reported several times."""
        moment = when or utc_now()
        columns = schema.history.c
        with self._writing(moment) as connection:
            row = query.find_node_row(connection, node)
            duplicates = (columns.node_id == row.id, columns.event == event, columns.at == moment)
            if connection.execute(select(columns.number).where(*duplicates)).first() is None:
                journal.add_history_entry(connection, row.id, moment, event, reason)

    def record_finding(
        self, node: str, reason: str, fault: ObservedFault | None = None, digest: str = ""
    ) -> None:
        """Add a finding of the watch to a node's history, and its fault to the ledger of the part that has it.

        ``digest`` names the evidence; the ledger has each once.
        """
        moment = utc_now()
        with self._writing(moment) as connection:
            row = query.find_node_row(connection, node)
            journal.add_history_entry(connection, row.id, moment, "finding", reason)
            if fault is not None:
                part_ledger.record_watched_fault(connection, row, fault, digest=digest, at=moment)

    # Burn-in

    def start_attempt(
        self, node: str, kind: str, attempt: str | None = None, when: datetime | None = None
    ) -> str:
        """Start an attempt and return its id; results of earlier attempts no longer count."""
        moment = when or utc_now()
        name = attempt or f"{moment.astimezone(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"
        with self._writing(moment) as connection:
            attempts.start_attempt_if_newest(
                connection, query.find_node_row(connection, node), name, kind, moment
            )
        return name

    def record_burn_in_result(
        self,
        node: str,
        attempt: str,
        report: dict[str, Any],
        records: Sequence[dict[str, Any]],
        *,
        reason: str = "",
        started_at: datetime | None = None,
        when: datetime | None = None,
        start_revision: int | None = None,
        seen: PartObservation | None = None,
    ) -> str:
        """Keep a judged result with its raw records and let its verdict move the node.

        ``seen`` is what the records say about parts; it enters their ledger if the result counts.
        ``start_revision`` is the revision at which an attempt began that the registry may not know yet.
        Returns ``applied``, ``repeated`` (known already) or ``ignored`` (an old attempt's, or the node is
        not burn-in's to move); what is ignored leaves a line of history and changes nothing else.
        """
        moment = when or utc_now()
        with self._writing(moment) as connection:
            row = query.find_node_row(connection, node)
            start = started_at or moment
            return attempts.record_burn_in_result(
                connection, row, attempt, report, records,
                reason=reason, started_at=start, at=moment, start_revision=start_revision, seen=seen,
            )  # fmt: skip

    # Parts

    def list_parts(self, node_id: str | None = None) -> Sequence[Part]:
        """Return the parts that counted burn-ins saw, all or those in a node now, with their places and ledgers."""
        with self._reading() as connection:
            ids = part_ledger.find_parts_of_node(connection, node_id) if node_id else None
            return part_ledger.load_parts(connection, ids)

    def list_recorded_actions(self, node_id: str | None = None) -> Sequence[RecordedAction]:
        """Return what was done to the parts of a node (None: of all), oldest first."""
        with self._reading() as connection:
            return part_ledger.load_recorded_actions(connection, node_id)

    def record_repair_action(self, part_id: str, action: str, reason: str, actor: str) -> Part:
        """Add what somebody did to a part to its ledger; return the part after it."""
        moment = utc_now()
        with self._writing(moment) as connection:
            (part,) = part_ledger.load_parts(connection, [part_id])
            part_ledger.record_repair_action(connection, part, action, reason, actor=actor, at=moment)
            return part_ledger.load_parts(connection, [part_id])[0]
