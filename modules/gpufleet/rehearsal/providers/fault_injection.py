"""Add, list and clear the faults of a rehearsal's clouds, and preempt their machines."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from gpufleet import catalog
from gpufleet.errors import InputError
from gpufleet.fleet import Fleet
from gpufleet.rehearsal.providers.faults import Fault, add_fault, list_active_faults
from gpufleet.rehearsal.providers.groups import AWS_GROUP, GCP_REGION_GROUP, SCALE_SET
from gpufleet.rehearsal.providers.preemption import preempt_machine
from gpufleet.rehearsal.providers.schema import load_cloud_schema
from gpufleet.rehearsal.providers.side_effects import settle
from gpufleet.rehearsal.providers.store import open_resource_store

_PROVIDERS = {"aws": "aws", "gcp": "gcp", "azure": "azure-native"}  # as the spec calls the clouds
_ANY_GROUP = {"aws": AWS_GROUP, "gcp": GCP_REGION_GROUP, "azure-native": SCALE_SET}


def add_cloud_fault(home: Path, cloud: str, fields: dict[str, Any]) -> list[dict[str, Any]]:
    """Add a fault to a cloud of the rehearsal in ``home``; return the faults of that cloud."""
    store = open_resource_store(_PROVIDERS[cloud], home)
    add_fault(store, Fault(**fields))
    store.close()
    return list_faults(home, cloud)


def check_fault_scope(declared: Fleet, cloud: str, zone: str, machine: str) -> None:
    """Raise InputError for a zone or machine that no pool of the stack can meet: such a fault would do nothing."""
    descriptor = catalog.get_cloud(cloud)
    pools = [pool for pool in declared.pools if pool.cloud == cloud]
    regions = sorted({pool.region for pool in pools})
    if zone and not any(descriptor.is_zone_name(zone, region) for region in regions):
        zones = sorted({name for pool in pools for name in pool.zones})
        zones = zones or [descriptor.example_zone_name(region) for region in regions]
        remedy = f"give a zone like {' or '.join(zones)}" if zones else f"the stack has no pool on {cloud}"
        problem = f"{zone!r} is not a zone of {cloud} {' or '.join(regions)}".rstrip()
        raise InputError(problem, where="--zone", remedy=remedy)
    if machine:
        try:
            catalog.get_machine(machine, cloud)
        except InputError as error:
            raise InputError(error.problem, where="--machine", remedy=error.remedy) from error


def list_faults(home: Path, cloud: str | None = None) -> list[dict[str, Any]]:
    """Return the faults of one cloud, or of all."""
    faults = []
    for name, provider in _PROVIDERS.items():
        if cloud in (None, name) and (home / "providers" / f"{provider}.sqlite").exists():
            store = open_resource_store(provider, home)
            faults += [{"cloud": name, **asdict(fault)} for _, fault in list_active_faults(store)]
            store.close()
    return faults


def clear_faults(home: Path, cloud: str | None = None) -> list[dict[str, Any]]:
    """Remove the faults of one cloud, or of all; groups start what they could not start before."""
    for name, provider in _PROVIDERS.items():
        if cloud in (None, name) and (home / "providers" / f"{provider}.sqlite").exists():
            store = open_resource_store(provider, home)
            with store.transaction():
                store.delete_faults()
                settle(load_cloud_schema(provider), store, _ANY_GROUP[provider])
            store.close()
    return list_faults(home, cloud)


def preempt(home: Path, cloud: str, node: str) -> str:
    """Preempt a machine; return what happened to it."""
    store = open_resource_store(_PROVIDERS[cloud], home)
    try:
        return preempt_machine(load_cloud_schema(_PROVIDERS[cloud]), store, node)
    finally:
        store.close()
