"""What the registry knows of the nodes that reports concern: read in bulk, changed in memory, written where changed."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select

from gpufleet.boundary import Json
from gpufleet.nodes import bulk_write, schema
from gpufleet.nodes.bulk_write import MAX_IDS_PER_QUERY, split_into_batches
from gpufleet.nodes.merge import FIELDS, merge_sourced_values
from gpufleet.nodes.model import NodeObservation, SourcedValue, is_witness_source
from gpufleet.nodes.source_report import ReportMatch, list_plain_values, list_sourced_values

_Key = tuple[str, str]  # node id, source


class RegistryUpdate:
    """Rows of one writing transaction. Load first, apply every report, then write once."""

    def __init__(self, connection: Connection, sources: Mapping[str, Any], number: int) -> None:
        self._connection, self._number = connection, number
        self._confirmed = {name: int(row.revision) for name, row in sources.items()}
        self._nodes: dict[str, Json] = {}
        self._presence: dict[_Key, Json] = {}
        self._present: dict[str, set[str]] = defaultdict(set)
        self._sources_of: dict[str, set[str]] = defaultdict(set)
        self._values: dict[str, dict[_Key, SourcedValue]] = {}  # of nodes of which something may differ
        self._fresh: dict[str, tuple[str, datetime]] = {}
        self._speakers: dict[str, set[str]] = defaultdict(set)
        self._value_rows: list[Json] = []
        self._value_drops: dict[str, list[tuple[str, str]]] = defaultdict(list)
        self._presence_rows: dict[_Key, Json] = {}
        self._lost: list[tuple[str, str, datetime]] = []

    def load_matched_nodes(self, matches: Sequence[ReportMatch]) -> None:
        """Read what the registry knows of the nodes meant, and who is present in the reporting sources."""
        table = schema.presence
        for match in matches:
            self._fresh |= dict.fromkeys(match.new_ids, (match.report.source, match.report.observed_at))
        node_ids = {i for match in matches for i in (*match.observations, *match.contradicted)} - set(
            self._fresh
        )
        node_ids |= self._nodes_present_in(
            {match.report.source for match in matches if match.report.complete}
        )
        for ids in split_into_batches(sorted(node_ids), MAX_IDS_PER_QUERY):
            for row in _rows(self._connection, select(table).where(table.c.node_id.in_(ids))):
                self._presence[row["node_id"], row["source"]] = row
                self._sources_of[row["node_id"]].add(row["source"])
        for match in matches:
            source = match.report.source
            for node_id, observation in match.observations.items():
                if not match.report.complete or not self._is_settled(node_id, source, observation):
                    self._values[node_id] = {}
        self._load_values([node_id for node_id in self._values if node_id not in self._fresh])

    def _nodes_present_in(self, sources: set[str]) -> set[str]:
        """Return the nodes that are present in any of the sources."""
        table = schema.presence.c
        for names in split_into_batches(sorted(sources), MAX_IDS_PER_QUERY):
            present = table.source.in_(names), table.missing_since.is_(None)
            for node_id, source in self._connection.execute(
                select(table.node_id, table.source).where(*present)
            ):
                self._present[source].add(node_id)
        return set().union(*self._present.values())

    def _load_values(self, ids: Sequence[str]) -> None:
        for batch in split_into_batches(ids, MAX_IDS_PER_QUERY):
            table = schema.observation
            for row in self._connection.execute(select(table).where(table.c.node_id.in_(batch))):
                value = SourcedValue(row.source, row.key, row.value, row.observed_at, row.revision)
                self._values[row.node_id][row.source, row.key] = value
            for node_row in _rows(self._connection, select(schema.node).where(schema.node.c.id.in_(batch))):
                self._nodes[node_row["id"]] = node_row

    def apply_report_match(self, match: ReportMatch) -> list[str]:
        """Apply a matched report; return the ids of the nodes that its source has lost."""
        report = match.report
        if report.complete:
            self._confirmed[report.source] = self._number
        for node_id, observation in match.observations.items():
            self._speakers[report.source].add(node_id)
            if report.complete and node_id not in self._values:
                continue  # settled: its report says the same, and nobody else has a say
            values = [_with_revision(value, self._number) for value in list_sourced_values(observation)]
            if report.complete:
                self._replace(node_id, report.source, values, report.observed_at)
            else:
                match.outcome.outdated += self._add(node_id, report.source, values, report.observed_at)
        for node_id in match.contradicted:
            self._record_presence(node_id, report.source, report.observed_at, None, confirm=False)
        return self._mark_missing(match) if report.complete else []

    def _is_settled(self, node_id: str, source: str, observation: NodeObservation) -> bool:
        """Return True if a report repeats its source's last values and no other source's rank depends on it."""
        presence_row = self._presence.get((node_id, source))
        declaring_sources = [name for name in self._sources_of[node_id] if not is_witness_source(name)]
        return (
            presence_row is not None
            and presence_row["missing_since"] is None
            and declaring_sources in ([source], [])
            and presence_row["digest"] == _digest(list_plain_values(observation))
        )

    def _replace(self, node_id: str, source: str, values: list[SourcedValue], at: datetime) -> None:
        values_by_key = self._values[node_id]
        reported_keys = {value.key for value in values}
        for key in [key for owner, key in values_by_key if owner == source and key not in reported_keys]:
            del values_by_key[source, key]
            self._value_drops[source].append((node_id, key))
        for value in values:
            previous_value = values_by_key.get((source, value.key))
            if (
                previous_value is None
                or previous_value.value != value.value
                or type(previous_value.value) is not type(value.value)
            ):
                self._store_value(node_id, value)
        self._record_presence(node_id, source, at, _digest({value.key: value.value for value in values}))

    def _add(self, node_id: str, source: str, values: list[SourcedValue], at: datetime) -> list[str]:
        """Apply a partial report; return the keys for which the source has a newer value."""
        old = []
        for value in values:
            previous_value = self._values[node_id].get((source, value.key))
            if previous_value is not None and previous_value.revision > self._number:
                old.append(value.key)
            else:
                self._store_value(node_id, value)
        if len(old) < len(values) or not values:
            self._record_presence(node_id, source, at, None)
        return old

    def _store_value(self, node_id: str, value: SourcedValue) -> None:
        self._values[node_id][value.source, value.key] = value
        self._value_rows.append(
            {
                "node_id": node_id,
                "source": value.source,
                "key": value.key,
                "value": value.value,
                "observed_at": value.observed_at,
                "revision": value.revision,
            }
        )

    def _record_presence(
        self, node_id: str, source: str, at: datetime, digest: str | None, *, confirm: bool = True
    ) -> None:
        """Record that a source knows a node; a newer record of the same source stays."""
        previous_row = self._presence.get((node_id, source))
        if previous_row is not None and previous_row["revision"] > self._number:
            return
        if not confirm and previous_row is not None and previous_row["missing_since"] is None:
            return
        row = {
            "node_id": node_id, "source": source, "observed_at": at, "missing_since": None,
            "revision": self._number, "digest": digest,
        }  # fmt: skip
        self._presence[node_id, source] = self._presence_rows[node_id, source] = row
        self._sources_of[node_id].add(source)

    def _mark_missing(self, match: ReportMatch) -> list[str]:
        """Mark the nodes that a complete report leaves out as missing from its source."""
        source, at = match.report.source, match.report.observed_at
        reported_ids = {*match.observations, *match.contradicted}
        lost_ids = sorted(self._present[source] - reported_ids)
        for node_id in lost_ids:
            self._presence[node_id, source] |= {"missing_since": at, "revision": self._number}
            self._presence_rows.pop((node_id, source), None)
            self._lost.append((node_id, source, at))
        return lost_ids

    def write_changes(self, retired_identities: set[tuple[str, ...]]) -> dict[str, set[str]]:
        """Write what differs; return the names that each source's nodes carry now.

        ``retired_identities`` are the names and places of retired nodes: a new node there begins a life of its
        own, so that reports of the earlier one are stale.
        """
        merged = {i: self._merge_values(i) for i in self._values}
        changed_rows = {
            i: row for i, row in merged.items() if i not in self._fresh and self._has_changed(i, row)
        }
        bulk_write.update_nodes(self._connection, changed_rows)
        new_rows = [
            bulk_write.build_new_node_row(
                i, merged[i], *self._fresh[i], retired_identities=retired_identities, revision=self._number
            )
            for i in self._fresh
        ]
        bulk_write.insert_nodes(self._connection, new_rows)
        bulk_write.delete_sourced_values(self._connection, self._value_drops)
        bulk_write.upsert_sourced_values(self._connection, self._value_rows)
        bulk_write.upsert(self._connection, schema.presence, list(self._presence_rows.values()))
        bulk_write.mark_nodes_missing(self._connection, self._lost, self._number)
        return {
            source: {merged[i]["name"] for i in ids if i in merged} for source, ids in self._speakers.items()
        }

    def _has_changed(self, node_id: str, row: Json) -> bool:
        old = self._nodes[node_id]
        return any(old[name] != value for name, value in bulk_write.convert_to_node_columns(row).items())

    def _merge_values(self, node_id: str) -> Json:
        """Return a node's fields in force, from every source's values."""
        lost_sources = {
            s for s in self._sources_of[node_id] if self._presence[node_id, s]["missing_since"] is not None
        }
        values = [
            _with_revision(
                value,
                max(
                    value.revision,
                    0 if value.source in lost_sources else self._confirmed.get(value.source, 0),
                ),
            )
            for value in self._values[node_id].values()
            if value.key.partition(".")[2] in _MERGED
        ]
        return merge_sourced_values(values, lost_sources)


_MERGED = frozenset(FIELDS)


def _with_revision(value: SourcedValue, number: int) -> SourcedValue:
    return SourcedValue(value.source, value.key, value.value, value.observed_at, number)


def _digest(values: Mapping[str, Any]) -> str:
    text = json.dumps(values, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]


def _rows(connection: Connection, query: Any) -> Iterator[Json]:
    for row in connection.execute(query):
        yield dict(row._mapping)  # noqa: SLF001 - SQLAlchemy's public name for it
