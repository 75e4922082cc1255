"""Fold one source's report into the registry: match, merge, write; nothing is ever overwritten unseen.

A report touches only its own source's values. A complete report marks the nodes it leaves out as missing
from that source; they are kept. Contradictions are recorded and hold the nodes concerned.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select

from gpufleet.nodes import schema, storing
from gpufleet.nodes.conflicts import record_conflicts
from gpufleet.nodes.identify import Contradiction, Index, Known, repeated_serials, shared_names
from gpufleet.nodes.merge import merge
from gpufleet.nodes.model import WITNESSES, Observation, Value
from gpufleet.nodes.storing import IDS_AT_ONCE, slices, upsert


@dataclass(frozen=True, slots=True)
class Report:
    """Everything one source said at one time; ``complete`` when what it leaves out is not there."""

    source: str
    observed_at: datetime
    observations: Sequence[Observation]
    complete: bool = True


@dataclass
class Outcome:
    """What folding a report did."""

    source: str
    seen: int = 0
    created: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    conflicts: list[Contradiction] = field(default_factory=list)
    stale: bool = False


def fold(connection: Connection, report: Report) -> Outcome:
    """Fold a report inside the caller's writing transaction."""
    outcome = Outcome(report.source, seen=len(report.observations))
    if _newer_known(connection, report):
        outcome.stale = True
        return outcome
    index = load_index(connection)
    matched = _match(index, report, outcome)
    if not report.complete:
        _drop_older(connection, report, matched)
    rows = _merged(connection, report, matched.said, matched.fresh)
    storing.write_nodes(connection, rows, matched.fresh, report.source, report.observed_at)
    values = {i: list(spoken(seen)) for i, seen in matched.said.items()}
    storing.write_values(connection, report.source, values, replace=report.complete)
    here = {*matched.said, *matched.doubted}
    lost = storing.write_presence(connection, report.source, here, report.observed_at, report.complete)
    outcome.created = [index.nodes[i].name for i in matched.fresh]
    outcome.missing = [index.nodes[i].name for i in lost if i in index.nodes]
    outcome.conflicts += _name_conflicts(connection, index, {row["name"] for row in rows.values()})
    record_conflicts(connection, report.source, outcome.conflicts, report.observed_at, whole=report.complete)
    if report.complete:
        answered = {
            "name": report.source,
            "observed_at": report.observed_at,
            "failed_at": None,
            "failure": None,
        }
        upsert(connection, schema.source, [answered])
    return outcome


def load_index(connection: Connection) -> Index:
    """Return every live node by its identities."""
    columns = schema.node.c
    wanted = (columns.id, columns.name, columns.state, columns.serial, columns.instance_id)
    query = select(*wanted, columns.rack, columns.slot).where(columns.state != "retired")
    index = Index()
    for row in connection.execute(query):
        index.add(Known(*row))
    return index


def _newer_known(connection: Connection, report: Report) -> bool:
    if not report.complete:
        return False
    query = select(schema.source.c.observed_at).where(schema.source.c.name == report.source)
    last: datetime | None = connection.execute(query).scalar()
    return last is not None and last > report.observed_at


def _drop_older(connection: Connection, report: Report, matched: _Matched) -> None:
    """Leave out what the source itself has said anew since: a run told again brings back nothing."""
    for row in _rows_of(connection, schema.presence, sorted(matched.said)):
        if row.source == report.source and row.observed_at > report.observed_at:
            matched.said.pop(row.node_id)


@dataclass
class _Matched:
    said: dict[str, Observation] = field(default_factory=dict)
    fresh: list[str] = field(default_factory=list)
    doubted: set[str] = field(default_factory=set)


def _match(index: Index, report: Report, outcome: Outcome) -> _Matched:
    """Say which node each observation means; contradicted ones change nothing but are not missing."""
    matched = _Matched()
    twice = repeated_serials(report.observations)
    for serial, same in twice.items():
        ids = tuple(i for seen in same if (i := index.by_place.get(seen.identity.place or ("", ""))))
        detail = f"serial {serial} is claimed by {', '.join(seen.name for seen in same)}"
        outcome.conflicts.append(Contradiction("serial_twice", serial, detail, ids))
        matched.doubted.update(ids)
    for seen in report.observations:
        if seen.identity.solid_serial in twice:
            continue
        known, contradiction = index.find(seen)
        if contradiction:
            outcome.conflicts.append(contradiction)
            matched.doubted.update(contradiction.nodes)
            continue
        if known is None:
            known = Known(f"n-{secrets.token_hex(6)}", seen.name, "expected")
            matched.fresh.append(known.id)
        index.add(_identified(known, seen))
        matched.said[known.id] = seen
    return matched


def _identified(known: Known, seen: Observation) -> Known:
    who = seen.identity
    return Known(
        known.id,
        seen.name,
        known.state,
        who.solid_serial or known.serial,
        who.instance_id or known.instance_id,
        who.rack or known.rack,
        who.slot or known.slot,
    )


def _merged(
    connection: Connection, report: Report, said: dict[str, Observation], fresh: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Return each touched node's fields in force: this report's values with every other source's."""
    known = sorted(set(said) - set(fresh))
    spoken_keys = {i: {value.key for value in spoken(said[i])} for i in known}
    others: dict[str, list[Value]] = defaultdict(list)
    lost: dict[str, set[str]] = defaultdict(set)
    for row in _rows_of(connection, schema.observation, known):
        if row.source != report.source or (not report.complete and row.key not in spoken_keys[row.node_id]):
            others[row.node_id].append(Value(row.source, row.key, row.value, row.observed_at))
    for row in _rows_of(connection, schema.presence, known):
        if row.missing_since and row.source != report.source:
            lost[row.node_id].add(row.source)
    return {i: merge([*spoken(seen), *others[i]], lost[i]) for i, seen in said.items()}


def spoken(seen: Observation) -> Iterator[Value]:
    """Give every value of an observation, its identity included, with source and time."""
    for key, value in {**seen.values(), **_identity_values(seen)}.items():
        yield Value(seen.source, key, value, seen.observed_at)


def _identity_values(seen: Observation) -> dict[str, Any]:
    """Return the identity as values with provenance too; a serial that we only declared stays declared."""
    who = seen.identity
    witness = seen.source.partition(":")[0] in WITNESSES
    place = {"declared.name": seen.name, "declared.rack": who.rack, "declared.slot": who.slot}
    found: dict[str, Any] = {"observed.instance_id": who.instance_id}
    if "serial" not in seen.declared:
        found["observed.serial"] = who.serial
    told = found if witness else {**place, **found}
    return {key: value for key, value in told.items() if value is not None}


def _rows_of(connection: Connection, table: Any, ids: Sequence[str]) -> Iterator[Any]:
    for chunk in slices(ids, IDS_AT_ONCE):
        yield from connection.execute(select(table).where(table.c.node_id.in_(chunk)))


def _name_conflicts(connection: Connection, index: Index, touched: set[str]) -> list[Contradiction]:
    """Name the live, present nodes that share a name: a playbook would confuse them."""
    same = {name for name in touched if len(index.by_name.get(name, ())) > 1}
    ids = [i for name in same for i in index.by_name[name]]
    missing = storing.missing_nodes(connection, ids) if ids else set()
    shared = shared_names(index, missing)
    return [
        Contradiction("name", name, f"{len(ids)} nodes are called {name}: {', '.join(ids)}", ids)
        for name, ids in shared.items()
        if name in same
    ]
