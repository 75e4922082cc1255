"""Applies reports of sources to the registry: match, merge, write; every overwritten value is compared first.

A report touches only its own source's values. A complete report marks the nodes it leaves out as missing
from that source; they are kept. Contradictions are recorded and hold the nodes concerned. All reports of one call
are matched first, then read, merged and written together: the number of statements grows with batches of nodes.
Order follows revisions (``revision.py``): a report that is older than what its source said last changes nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence

from sqlalchemy import Connection, select

from gpufleet.nodes import bulk_write, revision, schema
from gpufleet.nodes.conflicts import record_conflicts
from gpufleet.nodes.identifier_check import remove_malformed_identifiers
from gpufleet.nodes.model import NodeObservation
from gpufleet.nodes.node_index import (
    IdentityContradiction,
    LiveNode,
    NodeIndex,
    find_repeated_serials,
    find_shared_node_names,
)
from gpufleet.nodes.registry_update import RegistryUpdate
from gpufleet.nodes.shared_serial import SharedSerials, is_witness
from gpufleet.nodes.source_report import ReportMatch, ReportOutcome, SourceReport


def apply_source_report(connection: Connection, report: SourceReport) -> ReportOutcome:
    """Apply a report inside the caller's writing transaction."""
    return apply_source_reports(connection, [report])[0]


def apply_source_reports(connection: Connection, reports: Sequence[SourceReport]) -> list[ReportOutcome]:
    """Apply reports in their order inside the caller's writing transaction; return an outcome for each."""
    number = revision.get_current_revision(connection)
    sources = {row.name: row for row in connection.execute(select(schema.source))}
    index, previous_names = load_node_index(connection)
    matches, shared = [], SharedSerials(connection, index)
    for report in reports:
        match = ReportMatch(report, ReportOutcome(report.source, node_count=len(report.observations)))
        matches.append(match)
        last = sources.get(report.source)
        if report.complete and last is not None and last.revision > number:
            match.outcome.stale = True
        else:
            _match(index, match, shared)
    current = [match for match in matches if not match.outcome.stale]
    workspace = RegistryUpdate(connection, sources, number)
    workspace.load_matched_nodes(current)
    for match in current:
        lost_ids = workspace.apply_report_match(match)
        match.outcome.created = [index.nodes[i].name for i in match.new_ids]
        match.outcome.missing = [index.nodes[i].name for i in lost_ids if i in index.nodes]
    names = workspace.write_changes(previous_names)
    _record_conflicts(connection, index, current, names)
    bulk_write.record_source_report_times(
        connection, [match.report for match in current if match.report.complete], number
    )
    return [match.outcome for match in matches]


def load_node_index(connection: Connection) -> tuple[NodeIndex, set[tuple[str, ...]]]:
    """Return every live node by its identities, and the names and places that retired nodes had."""
    columns = schema.node.c
    identity_columns = (columns.id, columns.name, columns.state, columns.serial, columns.instance_id)
    index, previous = NodeIndex(), set[tuple[str, ...]]()
    for row in connection.execute(select(*identity_columns, columns.rack, columns.slot, columns.account)):
        if row.state == "retired":
            previous |= {(row.name,), (row.rack or "", row.slot or "")}
        else:
            index.add_node(LiveNode(*row))
    return index, previous - {("", "")}


def _match(index: NodeIndex, match: ReportMatch, shared: SharedSerials) -> None:
    """Enter which node each observation of a report means."""
    outcome = match.outcome
    observations = list(_well_formed(index, match))
    # What nodes report is compared one by one: nodes of a chassis may have one serial.
    repeated = find_repeated_serials(seen for seen in observations if not is_witness(seen))
    for serial, sharing in repeated.items():
        ids = tuple(
            i
            for observation in sharing
            if (i := index.by_rack_slot.get(observation.identity.rack_slot or ("", "")))
        )
        detail = f"serial {serial} is claimed by {', '.join(observation.name for observation in sharing)}"
        outcome.conflicts.append(IdentityContradiction("serial_twice", serial, detail, ids))
        match.contradicted.update(ids)
    for reported in observations:
        seen = shared.resolve_observation(reported)
        if seen.identity.identifying_serial in repeated:
            continue
        node, contradiction = index.match_observation(seen)
        if contradiction:
            outcome.conflicts.append(contradiction)
            match.contradicted.update(contradiction.nodes)
            continue
        if node is None:
            node = LiveNode(f"n-{secrets.token_hex(6)}", seen.name, "expected")
            match.new_ids.append(node.id)
        index.add_node(_with_identity(node, seen))
        match.observations[node.id] = shared.recent[node.id] = seen


def _well_formed(index: NodeIndex, match: ReportMatch) -> Iterator[NodeObservation]:
    """Yield observations without the identifiers that are not well-formed; report what is left out."""
    for observation in match.report.observations:
        checked, problems = remove_malformed_identifiers(observation)
        match.outcome.bad += problems
        if checked is not None:
            yield checked
        elif (node_id := index.by_instance.get(observation.identity.instance)) is not None:
            match.contradicted.add(node_id)


def _with_identity(node: LiveNode, observation: NodeObservation) -> LiveNode:
    identity = observation.identity
    return LiveNode(
        node.id,
        observation.name,
        node.state,
        identity.identifying_serial or node.serial,
        identity.instance_id or node.instance_id,
        identity.rack or node.rack,
        identity.slot or node.slot,
        identity.account or node.account,
    )


def _record_conflicts(
    connection: Connection, index: NodeIndex, matches: Iterable[ReportMatch], names: dict[str, set[str]]
) -> None:
    """Record each report's contradictions, among them the names that several live, present nodes share."""
    for match in matches:
        match.outcome.conflicts += _name_conflicts(connection, index, names.get(match.report.source, set()))
    record_conflicts(
        connection,
        [(m.report.source, m.outcome.conflicts, m.report.observed_at, m.report.complete) for m in matches],
    )


def _name_conflicts(
    connection: Connection, index: NodeIndex, changed_names: set[str]
) -> list[IdentityContradiction]:
    """Return a contradiction for each name that several live, present nodes share."""
    ambiguous_names = {name for name in changed_names if len(index.by_name.get(name, ())) > 1}
    ids = [i for name in ambiguous_names for i in index.by_name[name]]
    if not ids:
        return []
    shared = find_shared_node_names(index, bulk_write.find_missing_nodes(connection, ids))
    return [
        IdentityContradiction("name", name, f"{len(ids)} nodes are called {name}: {', '.join(ids)}", ids)
        for name, ids in shared.items()
        if name in ambiguous_names
    ]
