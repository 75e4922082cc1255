"""What a source reports of its nodes, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from gpufleet.nodes.model import NodeObservation, SourcedValue, is_witness_source
from gpufleet.nodes.node_index import IdentityContradiction


@dataclass(frozen=True, slots=True)
class SourceReport:
    """Everything one source reported at one time; ``complete`` if nodes that it leaves out are missing.

    ``group_sizes`` has the number of members of each cloud group that the source listed, by the group's key.
    """

    source: str
    observed_at: datetime
    observations: Sequence[NodeObservation]
    complete: bool = True
    group_sizes: Mapping[str, int] = field(default_factory=dict)


@dataclass
class ReportOutcome:
    """The effect of a report. ``stale``: it was older than its source's last report, and changed nothing.

    ``bad`` names values that were left out because they are not well-formed, ``old`` the values of a partial report
    that the same source has since reported anew.
    """

    source: str
    node_count: int = 0
    created: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    conflicts: list[IdentityContradiction] = field(default_factory=list)
    stale: bool = False
    bad: list[str] = field(default_factory=list)
    outdated: list[str] = field(default_factory=list)


@dataclass
class ReportMatch:
    """Which node each observation of a report means; contradicted nodes change nothing but are not missing."""

    report: SourceReport
    outcome: ReportOutcome
    observations: dict[str, NodeObservation] = field(default_factory=dict)
    new_ids: list[str] = field(default_factory=list)
    contradicted: set[str] = field(default_factory=set)


def list_sourced_values(observation: NodeObservation) -> Iterator[SourcedValue]:
    """Yield every value of an observation, its identity included, with source and time."""
    for key, value in list_plain_values(observation).items():
        yield SourcedValue(observation.source, key, value, observation.observed_at)


def list_plain_values(observation: NodeObservation) -> dict[str, Any]:
    """Return every value of an observation, its identity included, by its key."""
    return {**observation.values_by_registry_key(), **_identity_values(observation)}


def _identity_values(observation: NodeObservation) -> dict[str, Any]:
    """Return the identity as values with provenance too; a serial that we only declared stays declared."""
    identity = observation.identity
    witness = is_witness_source(observation.source)
    place = {
        "declared.name": observation.name,
        "declared.rack": identity.rack,
        "declared.slot": identity.slot,
    }
    observed: dict[str, Any] = {"observed.instance_id": identity.instance_id}
    if "serial" not in observation.declared:
        observed["observed.serial"] = identity.serial
    values = observed if witness else {**place, **observed}
    return {key: value for key, value in values.items() if value is not None}
