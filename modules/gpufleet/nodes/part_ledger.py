"""The ledger of parts: where each part was, which faults it had, and what was done about them.

A part keeps its ledger when it moves. All functions work inside the caller's transaction; rows of places and of the
ledger are only ever added. ``record_part_observation`` is called for results that count (``nodes/attempts.py``), so a
late result of an old attempt leaves no line here.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Table, insert, select, update

from gpufleet.boundary import is_identifier
from gpufleet.nodes import journal, revision, schema
from gpufleet.nodes.identity import normalize_serial
from gpufleet.nodes.part import (
    ObservedFault,
    ObservedPart,
    Part,
    PartObservation,
    Placement,
    RecordedAction,
    RepairEntry,
)

MAX_PARTS = 512  # of one node in one attempt; more is an attack
_LONGEST_TEXT, _LONGEST_POSITION = 255, 64  # characters of a column


def record_part_observation(
    connection: Connection,
    node: Any,
    seen: PartObservation,
    *,
    attempt: str,
    digest: str,
    verdict: str,
    at: datetime,
) -> None:
    """Add what an attempt saw: new places of parts, faults, and faults that are gone."""
    own_part = find_node_part(connection, node, at)
    _place(connection, own_part.id, node, "", attempt=attempt, at=at)
    ids: dict[tuple[str, str], str] = {}
    for observed in list(filter(_is_well_formed, seen.parts))[:MAX_PARTS]:
        part = _find_or_add(connection, observed, at)
        ids[observed.kind, observed.position] = part.id
        _place(connection, part.id, node, observed.position, attempt=attempt, at=at)
    known = _ids_by_position(connection, node.id)
    for fault in seen.faults[:MAX_PARTS]:
        key = fault.part_kind, fault.position
        part_id = ids.get(key) or known.get(key) or own_part.id
        _add_fault(connection, part_id, node.id, fault, attempt=attempt, digest=digest, at=at)
    if verdict in ("healthy", "degraded"):
        for part_id in {own_part.id, *ids.values()}:
            _add_passed(connection, part_id, node.id, attempt=attempt, digest=digest, at=at)


def record_watched_fault(
    connection: Connection, node: Any, fault: ObservedFault, *, digest: str, at: datetime
) -> None:
    """Add a fault that an exporter reported to the part at its position, else to the part that stands for the node."""
    part_id = _ids_by_position(connection, node.id).get((fault.part_kind, fault.position))
    if part_id is None:
        own_part = find_node_part(connection, node, at)
        _place(connection, own_part.id, node, "", attempt=None, at=at)
        part_id = own_part.id
    _add_fault(connection, part_id, node.id, fault, attempt=None, digest=digest, at=at)


def find_node_part(connection: Connection, node: Any, at: datetime) -> Any:
    """Return the row of the part that stands for the node itself."""
    if node.instance_id:
        observed = ObservedPart("instance", serial=node.instance_id[-_LONGEST_TEXT:], model=node.machine)
    else:
        serial = normalize_serial(node.serial)
        observed = ObservedPart("board", serial, None if serial else f"node:{node.id}", node.machine)
    return _find_or_add(connection, observed, at)


def _is_well_formed(part: ObservedPart) -> bool:
    """Return whether a part of a node's report may enter the registry."""
    texts = {"serial": part.serial, "uuid": part.uuid}
    return (
        any(texts.values())
        and all(text is None or is_identifier(text, "serial") for text in texts.values())
        and (not part.position or is_identifier(part.position, "serial"))
        and len(part.position) <= _LONGEST_POSITION
    )


def _find_or_add(connection: Connection, observed: ObservedPart, at: datetime) -> Any:
    """Return the row of a part: the same UUID, or the same serial while one of both has no UUID.

    Two GPUs of one board may share its serial, so a UUID decides first.
    """
    table = schema.part
    own_kind = table.c.kind == observed.kind
    row = None
    if observed.uuid:
        row = connection.execute(select(table).where(own_kind, table.c.uuid == observed.uuid)).one_or_none()
    if row is None and observed.serial:
        same = select(table).where(own_kind, table.c.serial == observed.serial)
        if observed.uuid:
            same = same.where(table.c.uuid.is_(None))
        row = connection.execute(same.order_by(table.c.first_seen_at, table.c.id)).first()
    if row is None:
        values = {
            "id": f"p-{secrets.token_hex(6)}", "kind": observed.kind, "serial": observed.serial,
            "uuid": observed.uuid, "model": _model_or_none(observed.model), "first_seen_at": at,
        }  # fmt: skip
        connection.execute(insert(table), values)
        return connection.execute(select(table).where(table.c.id == values["id"])).one()
    learned = {
        key: value
        for key in ("serial", "uuid", "model")
        if getattr(row, key) is None
        and (value := getattr(observed, key))
        and (key != "model" or _model_or_none(value))
    }
    if learned:
        connection.execute(update(table).where(table.c.id == row.id).values(learned))
        return connection.execute(select(table).where(table.c.id == row.id)).one()
    return row


def _model_or_none(text: str | None) -> str | None:
    return text if text and is_identifier(text, "model") and len(text) <= _LONGEST_TEXT else None


def _newest_place(connection: Connection, part_id: str) -> Any:
    table = schema.placement
    ordered = (
        select(table)
        .where(table.c.part_id == part_id)
        .order_by(table.c.revision.desc(), table.c.number.desc())
    )
    return connection.execute(ordered.limit(1)).one_or_none()


def _place(
    connection: Connection, part_id: str, node: Any, position: str, *, attempt: str | None, at: datetime
) -> None:
    """Add the part's place if it changed; a part that was in the same place before is no longer there."""
    number = revision.get_current_revision(connection)
    last = _newest_place(connection, part_id)
    here = (node.id, node.rack, node.slot, position)
    if last is not None and (last.node_id, last.rack, last.slot, last.position) == here:
        return
    if position and (last is None or last.revision <= number):
        kind = connection.execute(select(schema.part.c.kind).where(schema.part.c.id == part_id)).scalar_one()
        displaced = _ids_by_position(connection, node.id).get((kind, position))
        if displaced and displaced != part_id:
            _add_place(connection, displaced, None, None, None, position="", attempt=attempt, at=at)
    _add_place(connection, part_id, *here[:3], position=position, attempt=attempt, at=at)


def _add_place(
    connection: Connection,
    part_id: str,
    node_id: str | None,
    rack: str | None,
    slot: str | None,
    *,
    position: str,
    attempt: str | None,
    at: datetime,
) -> None:
    row = {
        "part_id": part_id, "node_id": node_id, "rack": rack, "slot": slot, "position": position, "at": at,
        "attempt": attempt, "revision": revision.get_current_revision(connection),
    }  # fmt: skip
    connection.execute(insert(schema.placement), row)


def _ids_by_position(connection: Connection, node_id: str) -> dict[tuple[str, str], str]:
    """Return the parts that are in a node now, by kind and position."""
    return {place: part_id for part_id, place in _find_parts_in(connection, node_id).items()}


def _find_parts_in(connection: Connection, node_id: str) -> dict[str, tuple[str, str]]:
    """Return kind and position of each part that is in a node now."""
    table, part = schema.placement, schema.part
    joined = select(table.c.part_id, part.c.kind).join(part, part.c.id == table.c.part_id)
    here = {}
    for part_id, kind in connection.execute(joined.where(table.c.node_id == node_id).distinct()):
        place = _newest_place(connection, part_id)
        if place is not None and place.node_id == node_id:
            here[part_id] = (kind, place.position)
    return here


def _add_entry(connection: Connection, **values: Any) -> None:
    row: dict[str, Any] = dict.fromkeys(("check_name", "measured", "threshold", "attempt", "digest", "actor"))
    row |= {"unit": "", "revision": revision.get_current_revision(connection)} | values
    row["detail"] = journal.trim_reason(row["detail"])
    connection.execute(insert(schema.repair), row)


def _add_fault(
    connection: Connection,
    part_id: str,
    node_id: str,
    fault: ObservedFault,
    *,
    attempt: str | None,
    digest: str,
    at: datetime,
) -> None:
    """Add a fault, once for the same raw records: judging them again is not a recurrence."""
    table = schema.repair.c
    same = table.part_id == part_id, table.event == "fault", table.name == fault.fault, table.digest == digest
    if connection.execute(select(table.number).where(*same)).first() is not None:
        return
    _add_entry(
        connection, part_id=part_id, node_id=node_id, at=at, event="fault", name=fault.fault[:64],
        check_name=fault.check[:64], measured=fault.measured, threshold=fault.threshold, unit=fault.unit[:32],
        detail=fault.detail, attempt=attempt, digest=digest,
    )  # fmt: skip


def _add_passed(
    connection: Connection, part_id: str, node_id: str, *, attempt: str, digest: str, at: datetime
) -> None:
    """Add a line for each open fault of a part that was measured and found well."""
    entries = load_entries(connection, [part_id])[part_id]
    last = {entry.name: entry.event for entry in entries if entry.event != "action"}
    digests = {entry.name: entry.digest for entry in entries if entry.event == "fault"}
    for name, event in last.items():
        if event == "fault" and digests[name] != digest:
            _add_entry(
                connection, part_id=part_id, node_id=node_id, at=at, event="passed", name=name,
                detail="measured again without this fault", attempt=attempt, digest=digest,
            )  # fmt: skip


def record_repair_action(
    connection: Connection, part: Part, action: str, reason: str, *, actor: str, at: datetime
) -> None:
    """Add what somebody did to a part; ``replace`` also takes it out of its node."""
    place = part.place
    node_id = place.node if place else None
    _add_entry(
        connection,
        part_id=part.id,
        node_id=node_id,
        at=at,
        event="action",
        name=action,
        detail=reason,
        actor=actor,
    )
    if action == "replace" and node_id:
        _add_place(connection, part.id, None, None, None, position="", attempt=None, at=at)


def load_parts(connection: Connection, part_ids: Iterable[str] | None = None) -> list[Part]:
    """Return parts (all, when no ids are given) with their places and ledger."""
    table = schema.part
    query = select(table).order_by(table.c.kind, table.c.serial, table.c.uuid, table.c.id)
    ids = None if part_ids is None else list(part_ids)
    if ids is not None:
        query = query.where(table.c.id.in_(ids))
    entries, places = load_entries(connection, ids), _load_placements(connection, ids)
    return [
        Part(
            row.id, row.kind, row.serial, row.uuid, row.model, row.first_seen_at,
            tuple(places[row.id]), tuple(entries[row.id]),
        )
        for row in connection.execute(query)
    ]  # fmt: skip


def load_recorded_actions(connection: Connection, node_id: str | None = None) -> list[RecordedAction]:
    """Return what was done to the parts that were in a node then (None: in any node), oldest first."""
    table, part = schema.repair, schema.part
    query = (
        select(table.c.node_id, part.c.uuid, part.c.serial, part.c.id, table.c.name, table.c.at)
        .join(part, part.c.id == table.c.part_id)
        .where(table.c.event == "action", table.c.node_id.is_not(None))
        .order_by(table.c.at, table.c.number)
    )
    if node_id is not None:
        query = query.where(table.c.node_id == node_id)
    return [
        RecordedAction(row.node_id, row.uuid or row.serial or row.id, row.name, row.at)
        for row in connection.execute(query)
    ]


def find_parts_of_node(connection: Connection, node_id: str) -> list[str]:
    """Return the ids of the parts that are in a node now."""
    return sorted(_find_parts_in(connection, node_id))


def _load_rows_of_parts(
    connection: Connection, table: Table, part_ids: Sequence[str] | None
) -> Iterator[Row[Any]]:
    """Yield a table's rows of these parts (None: of all), in the order of revisions."""
    query = select(table).order_by(table.c.revision, table.c.number)
    if part_ids is not None:
        query = query.where(table.c.part_id.in_(part_ids))
    yield from connection.execute(query)


def load_entries(connection: Connection, part_ids: Sequence[str] | None) -> dict[str, list[RepairEntry]]:
    """Return the ledger of each part, in the order of revisions."""
    entries: dict[str, list[RepairEntry]] = defaultdict(list)
    for row in _load_rows_of_parts(connection, schema.repair, part_ids):
        entry = RepairEntry(
            row.number, row.part_id, row.node_id, row.at, row.event, row.name, row.detail, row.check_name,
            row.measured, row.threshold, row.unit, row.attempt, row.digest, row.actor,
        )  # fmt: skip
        entries[row.part_id].append(entry)
    return entries


def _load_placements(connection: Connection, part_ids: Sequence[str] | None) -> dict[str, list[Placement]]:
    places: dict[str, list[Placement]] = defaultdict(list)
    for row in _load_rows_of_parts(connection, schema.placement, part_ids):
        place = Placement(row.at, row.node_id, row.rack, row.slot, row.position, row.attempt)
        places[row.part_id].append(place)
    return places
