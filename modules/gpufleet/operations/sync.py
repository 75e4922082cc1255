"""Brings every source into the registry: racks and workstations as declared, Pulumi state, addresses, clouds.

Each source is a report of its own. One that fails changes nobody's nodes: its last good report stays in
force, the failure is noted and told. A spec that is wrong stops the sync before anything is changed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from gpufleet import engine, fleet, nodes
from gpufleet.errors import EnvironmentFault, GpufleetError, InputError
from gpufleet.nodes import Identity, Observation, Outcome, Registry, Report
from gpufleet.nodes.model import now

Say = Callable[[str], None]


@dataclass(frozen=True)
class Options:
    """What to ask beside the declared fleet and the Pulumi state."""

    state_file: Path | None = None
    address_book: Path | None = None
    cloud_api: bool = False
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))


@dataclass
class Synced:
    """What came of a sync, source by source."""

    outcomes: list[Outcome] = field(default_factory=list)
    failures: dict[str, GpufleetError] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def sync(registry: Registry, root: Path, stack: str, options: Options | None = None) -> Synced:
    """Bring every source of a stack into the registry."""
    chosen = options or Options()
    declared = fleet.load(stack, root)
    synced = Synced()
    for source, ask in _sources(declared, root, chosen, synced.notes):
        try:
            synced.outcomes.append(registry.report(ask()))
        except GpufleetError as error:
            registry.source_failed(source, str(error))
            synced.failures[source] = error
    return synced


def declare_racks(registry: Registry, root: Path, stack: str | None = None) -> None:
    """Register the slots of every rack file, or of one stack's racks: needs no engine and no network."""
    if stack:
        for use in fleet.load(stack, root).racks:
            registry.report(nodes.rack_report(use.rack, now(), stack, use.template))
        return
    for path in nodes.rack_files(root / "inventory"):
        registry.report(nodes.rack_report(fleet.load_rack(path, root), now()))


_Source = tuple[str, Callable[[], Report]]


def _sources(declared: fleet.Fleet, root: Path, options: Options, notes: list[str]) -> Iterator[_Source]:
    """Name each source with the call that asks it."""
    stack, at = declared.stack, now()
    for use in declared.racks:
        yield f"rack:{use.rack.name}", partial(nodes.rack_report, use.rack, at, stack, use.template)
    if declared.workstations:
        source = f"workstation:{stack}"
        yield source, partial(nodes.workstation_report, stack, declared.workstations, at)
    if declared.pools or options.state_file:
        yield f"pulumi:{stack}", partial(_pulumi, declared, root, options, at, notes)
    if options.cloud_api:
        for region in sorted({pool.region for pool in declared.pools if pool.cloud == "aws"}):
            yield f"aws:{region}", partial(_aws, stack, region, at)
    if options.address_book:
        book = options.address_book
        yield "address_book", partial(_addresses, declared, book, at, notes)


def _aws(stack: str, region: str, at: datetime) -> Report:
    from gpufleet.nodes.cloudapi import aws_report

    return aws_report(stack, region, at)


def _pulumi(declared: fleet.Fleet, root: Path, options: Options, at: datetime, notes: list[str]) -> Report:
    text = _read(options.state_file) if options.state_file else _export(declared.stack, root, options)
    resources = engine.parse_state(_json(text, "pulumi stack export"))
    asked = {pool.cloud for pool in declared.pools if pool.cloud == "aws"} if options.cloud_api else set()
    for cloud, name in nodes.elastic_groups(resources):
        if cloud not in asked:
            notes.append(f"{name}: an elastic group; only its cloud knows its nodes (--cloud-api asks AWS)")
    return nodes.state_report(resources, declared.stack, at)


def _export(stack: str, root: Path, options: Options) -> str:
    """Ask the engine for the stack's state, with the engine that we built where none is on PATH."""
    environment = dict(options.environment)
    found = engine.find()
    if found is not None:
        environment["PATH"] = os.pathsep.join((environment.get("PATH", os.defpath), str(found.bin_dir)))
    return engine.run_pulumi(["stack", "export", "--stack", stack], root, environment)


def _addresses(declared: fleet.Fleet, book: Path, at: datetime, notes: list[str]) -> Report:
    """Read an address book, ``{"rack/slot": "address"}``; slots that the stack does not declare are told."""
    told = _json(_read(book), str(book))
    if not isinstance(told, dict):
        raise InputError("is not a mapping of rack/slot to address", where=str(book))
    places = {f"{use.rack.name}/{node.slot}": node.name for use in declared.racks for node in use.rack.nodes}
    strange = sorted(set(told) - set(places))
    if strange:
        notes.append(f"{book.name}: no such slot in {declared.stack}: {', '.join(strange)}")
    seen = [_located(name, place, str(told[place]), at) for place, name in places.items() if place in told]
    return Report("address_book", at, seen)


def _located(name: str, place: str, address: str, at: datetime) -> Observation:
    rack, _, slot = place.rpartition("/")
    who = Identity(rack=rack, slot=slot)
    return Observation("address_book", name, who, observed={"address": address}, observed_at=at)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise EnvironmentFault(f"{path}: {error.strerror}") from None


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InputError(f"is not JSON ({error})", where=where) from None
