"""Reads every source into the registry: racks and workstations as declared, Pulumi state, addresses, clouds.

Each source is a report of its own. A source that fails changes no node: its last good report stays in
force, and the failure is recorded and printed. A spec that is wrong stops the sync before anything is changed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from gpufleet import engine, fleet, nodes, paths
from gpufleet.boundary import check_identifier, decode_json_object, make_printable, read_text
from gpufleet.errors import GpufleetError
from gpufleet.nodes import NodeIdentity, NodeObservation, Registry, ReportOutcome, SourceReport
from gpufleet.nodes.cloud_api.instance import CloudGroup, read_stack_groups
from gpufleet.nodes.model import utc_now
from gpufleet.operations import source_outcome
from gpufleet.operations.member_sync import (
    SimulatedMembers,
    list_cloud_sources,
    list_simulated_sources,
)
from gpufleet.operations.node_probe import NodeProbeReport, find_ssh_login, probe_nodes
from gpufleet.operations.pool_size import PoolSize, compare_pool_sizes
from gpufleet.operations.stack_state import read_stack_resources
from gpufleet.progress import report_step


@dataclass(frozen=True)
class SyncOptions:
    """What to read in addition to the declared fleet and the Pulumi state."""

    state_file: Path | None = None
    address_book: Path | None = None
    cloud_api: bool = False
    probe: bool = False
    list_simulated_members: SimulatedMembers | None = None  # set in a rehearsal: no real cloud is called then
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    @property
    def address_book_file(self) -> Path | None:
        """Return the address book given, else the rehearsal's, where its racks have been up."""
        default_path = self.environment.get("GPUFLEET_ADDRESS_BOOK")
        return self.address_book or (
            Path(default_path) if default_path and Path(default_path).is_file() else None
        )


@dataclass
class SyncResult:
    """The result of a sync, source by source."""

    outcomes: list[ReportOutcome] = field(default_factory=list)
    failures: dict[str, GpufleetError] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    pool_sizes: list[PoolSize] = field(default_factory=list)
    reach: NodeProbeReport | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the account for programs."""
        return {
            "sources": [source_outcome.outcome_as_json(outcome) for outcome in self.outcomes],
            "groups": [size.as_json() for size in self.pool_sizes],
            "failures": {source: str(error) for source, error in self.failures.items()},
            "unreachable": self.reach.unreachable if self.reach else {},
        }

    def format_summary_lines(self) -> Iterator[str]:
        """Yield a line for each source that answered."""
        yield from map(source_outcome.format_outcome_line, self.outcomes)
        yield from (size.text for size in self.pool_sizes if not size.is_as_declared)
        if self.reach:
            yield f"ssh: {len(self.reach.answered)} answer, {len(self.reach.unreachable)} do not"

    def list_warnings(self) -> Iterator[str]:
        """Yield what a person should know in addition to the summary."""
        yield from self.notes
        yield from source_outcome.list_outcome_warnings(self.outcomes)
        if self.reach:
            yield from (
                f"{node} does not answer: {reason}" for node, reason in self.reach.unreachable.items()
            )
            yield from (f"conflict: {detail}" for detail in self.reach.conflicts)
            yield from (f"left out: {line}" for line in self.reach.bad)
        yield from source_outcome.list_failures(self.failures)

    def raise_if_incomplete(self) -> None:
        """Raise CheckFailed if a source failed or contradicts another: the registry is not complete."""
        has_conflicts = any(outcome.conflicts for outcome in self.outcomes) or bool(
            self.reach and self.reach.conflicts
        )
        source_outcome.raise_for_failures(self.failures, has_conflicts=has_conflicts, done="synced")


def sync_registry_from_stack(stack: str, options: SyncOptions) -> SyncResult:
    """Sync a stack of the project we are in into its registry."""
    from gpufleet.nodes.revision import FIRST_REVISION

    root = paths.find_project_root()
    url = paths.registry_database_url(root)
    # A wrong spec is reported before a registry is made for it.
    declared = None if Registry.has_registry(url) else load_declared_fleet(stack, root)
    with Registry(url) as registry:
        number = registry.create_revision()  # before anything is read: what reads later is newer
        if declared is None or number != FIRST_REVISION:  # another sync may have read what came after ours
            declared = load_declared_fleet(stack, root)
        return sync_registry_from_sources(registry, root, declared, options, number)


def load_declared_fleet(stack: str, root: Path) -> fleet.Fleet:
    """Return the fleet of a stack's file; that of a program of somebody's own is in the state alone."""
    if fleet.is_fleet_project(root):
        return fleet.load_fleet(stack, root)
    folder = root / engine.read_project_setting(root, "stackConfigDir")
    return fleet.build_program_fleet(stack, folder / f"Pulumi.{stack}.yaml")


def sync_registry_from_sources(
    registry: Registry,
    root: Path,
    declared_fleet: fleet.Fleet,
    options: SyncOptions | None = None,
    revision: int | None = None,
) -> SyncResult:
    """Read every source of a declared fleet into the registry, in one transaction.

    ``revision`` is the one that was drawn before ``declared_fleet`` was read.
    """
    sync_options = options or SyncOptions()
    synced = SyncResult()
    revision = revision or registry.create_revision()
    reports = []
    outputs = StackOutputs()
    for source, read_report in _sources(declared_fleet, root, sync_options, synced.notes, outputs):
        report_step(f"reading {source}")
        try:
            reports.append(read_report())
        except GpufleetError as error:
            synced.failures[source] = error
    reports = [nodes.declare_pool_fabrics(report, outputs.fabrics) for report in reports]
    synced.pool_sizes = compare_pool_sizes(declared_fleet, outputs.groups, reports)
    with registry.transaction(revision_number=revision):
        synced.outcomes += registry.apply_source_reports(reports)
        for source, fault in synced.failures.items():
            registry.record_source_failure(source, str(fault))
    if sync_options.probe:
        try:
            report_step("asking nodes over SSH")
            rehearsal = bool(sync_options.environment.get("GPUFLEET_REHEARSAL"))
            synced.reach = probe_nodes(
                registry, find_ssh_login(sync_options.environment), rehearsal=rehearsal
            )
        except GpufleetError as error:
            synced.failures["ssh"] = error
    return synced


def register_declared_racks(registry: Registry, root: Path, stack: str | None, at: datetime) -> None:
    """Register the slots of the racks in use, or of one stack's racks: needs no engine and no network."""
    if stack and fleet.is_fleet_project(root):
        used = fleet.load_fleet(stack, root).racks
        registry.apply_source_reports(
            [nodes.build_rack_report(use.rack, at, stack, use.template) for use in used]
        )
        return
    racks = {rack.name: rack for rack in fleet.load_racks(root / "inventory", root).values()}
    in_use = nodes.list_racks_in_use(racks, root, registry.list_nodes())
    registry.apply_source_reports([nodes.build_rack_report(racks[name], at) for name in sorted(in_use)])


@dataclass
class StackOutputs:
    """What the stack's outputs declare, once its state was read."""

    groups: list[CloudGroup] = field(default_factory=list)
    fabrics: dict[str, dict[str, Any]] = field(default_factory=dict)


_Source = tuple[str, Callable[[], SourceReport]]


def _sources(
    declared: fleet.Fleet, root: Path, options: SyncOptions, notes: list[str], outputs: StackOutputs
) -> Iterator[_Source]:
    """Yield each source with the function that reads its report; that of the state fills ``outputs``."""
    stack, at = declared.stack, utc_now()
    is_own_program = not fleet.is_fleet_project(root)
    if is_own_program and not options.list_simulated_members:  # a rehearsal boots none of them
        for rack in fleet.load_racks(root / "inventory", root).values():
            yield f"rack:{rack.name}", partial(nodes.build_rack_report, rack, at)
    for use in declared.racks:
        yield f"rack:{use.rack.name}", partial(nodes.build_rack_report, use.rack, at, stack, use.template)
    if declared.workstations:
        source = f"workstation:{stack}"
        yield source, partial(nodes.build_workstation_report, stack, declared.workstations, at)
    if declared.pools or options.state_file or is_own_program:
        yield f"pulumi:{stack}", partial(_pulumi_report, declared, root, options, at, notes, outputs)
    if options.list_simulated_members:
        yield from list_simulated_sources(declared, outputs.groups, options.list_simulated_members, at)
    elif options.cloud_api:
        yield from list_cloud_sources(declared, outputs.groups, options.environment, at)
    if book := options.address_book_file:
        yield "address_book", partial(_address_report, declared, book, at, notes)


def _pulumi_report(  # noqa: PLR0917 - partial() above names each
    declared: fleet.Fleet,
    root: Path,
    options: SyncOptions,
    at: datetime,
    notes: list[str],
    outputs: StackOutputs,
) -> SourceReport:
    """Return the nodes of the state; its groups and fabrics are added to ``outputs``."""
    resources = read_stack_resources(declared.stack, root, options.environment, options.state_file)
    outputs.groups += read_stack_groups(resources)
    outputs.fabrics |= nodes.read_stack_fabrics(resources)
    if not (options.cloud_api or options.list_simulated_members):
        names = [name for _, name in nodes.list_elastic_groups(resources)]
        notes += [f"{', '.join(names)}: only the cloud knows the members: add --cloud-api"] if names else []
    return nodes.build_pulumi_state_report(resources, declared.stack, at)


def _address_report(declared: fleet.Fleet, book: Path, at: datetime, notes: list[str]) -> SourceReport:
    """Read an address book, ``{"rack/slot": "address"}``; unknown slots are added to ``notes``."""
    book_entries = decode_json_object(read_text(book), str(book))
    places = {f"{use.rack.name}/{node.slot}": node.name for use in declared.racks for node in use.rack.nodes}
    unknown_slots = sorted(set(book_entries) - set(places))
    if unknown_slots:
        notes.append(
            make_printable(f"{book.name}: unknown slots in {declared.stack}: {', '.join(unknown_slots)}")
        )
    addresses = {
        place: check_identifier(book_entries[place], "address", str(book), place)
        for place in places
        if place in book_entries
    }
    observations = [
        _address_observation(places[place], place, address, at) for place, address in addresses.items()
    ]
    return SourceReport("address_book", at, observations)


def _address_observation(name: str, place: str, address: str, at: datetime) -> NodeObservation:
    rack, _, slot = place.rpartition("/")
    identity = NodeIdentity(rack=rack, slot=slot)
    return NodeObservation("address_book", name, identity, observed={"address": address}, observed_at=at)
