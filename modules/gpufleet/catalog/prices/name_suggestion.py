"""Suggest the cloud, region or machine that a mistyped name means."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gpufleet.boundary import shorten_repr
from gpufleet.catalog import data_file
from gpufleet.catalog.prices import snapshot
from gpufleet.catalog.prices.known_name import load_known_names
from gpufleet.catalog.prices.name_check import KnownNames, find_refreshed_part_unit
from gpufleet.catalog.prices.reader import open_price_reader
from gpufleet.catalog.prices.row import LICENSED_SYSTEMS, split_licensed_machine
from gpufleet.catalog.prices.similar_name import ask_about_names, find_similar_names
from gpufleet.errors import InputError

STATUS = "gpufleet prices status lists the prices"


def load_priced_names() -> KnownNames:
    """Return the clouds, regions, machines and parts of the catalogue, the snapshot and the price store.

    The checks of an import know fewer machines: of one whose size no list has, they cannot judge a price.
    """
    store = open_price_reader()
    names = load_known_names(store.connection if store else None)
    items = {cloud: known | snapshot.list_snapshot_items(cloud) for cloud, known in names.items.items()}
    return replace(names, items=items)


def is_priced_region(cloud: str, region: str) -> bool:
    """Return whether the catalogue or the snapshot has a price in a region; it does not read the price store."""
    return region in data_file.list_accelerator_regions(cloud) or any(
        (each_cloud, each_region) == (cloud, region)
        for each_cloud, each_region, _ in snapshot.list_region_members()
    )


def suggest_region(cloud: str, region: str, names: KnownNames) -> str:
    """Return a question about the region of a cloud that a misspelt one means, empty if none is close."""
    return ask_about_names(find_similar_names(region, names.regions.get(cloud, ())))


def suggest_machine(cloud: str, machine: str, names: KnownNames) -> str:
    """Return a question about the machine of a cloud that a misspelt one means; a licensed system stays."""
    plain, system = split_licensed_machine(machine)
    similar = find_similar_names(plain, names.items.get(cloud, ()))
    return ask_about_names(tuple(f"{each}:{system}" if system else each for each in similar))


def check_searched_names(cloud: str | None, region: str | None, machine: str | None) -> None:
    """Raise InputError if a search without results names a cloud, region or machine that no price has."""
    names = load_priced_names()
    if cloud and cloud not in names.regions:
        raise _unknown_name_error("cloud", cloud, names.regions)
    clouds = [cloud] if cloud else list(names.regions)
    regions = {known for each in clouds for known in names.regions[each]}
    if region and region not in regions:
        raise _unknown_name_error("region", region, regions)
    machines = {known for each in clouds for known in names.items.get(each, ())}
    if machine and split_licensed_machine(machine)[0] not in machines:
        _check_machine_name(machine, machines)


def _check_machine_name(machine: str, known_machines: Iterable[str]) -> None:
    """Raise InputError for an unknown machine, and for an unknown part or system that is close to a known one."""
    plain, colon, _ = machine.rpartition(":")
    if not colon:
        raise _unknown_name_error("machine", machine, known_machines)
    known_names = {*known_machines, *(f"{plain}:{system}" for system in LICENSED_SYSTEMS)}
    if find_refreshed_part_unit(machine) is None and find_similar_names(machine, known_names):
        raise _unknown_name_error("machine", machine, known_names)


def _unknown_name_error(kind: str, name: str, known_names: Iterable[str]) -> InputError:
    remedy = ask_about_names(find_similar_names(name, known_names, cutoff=0.6)) or STATUS
    return InputError(f"no price is known for {kind} {shorten_repr(name)}", where=f"--{kind}", remedy=remedy)
