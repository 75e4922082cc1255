"""Suggest the cloud, region or machine that a mistyped name means."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches

from gpufleet.boundary import shorten_repr
from gpufleet.catalog import data_file
from gpufleet.catalog.prices import snapshot
from gpufleet.catalog.prices.check_context import load_known_names
from gpufleet.catalog.prices.name_check import KnownNames
from gpufleet.catalog.prices.reader import open_price_reader
from gpufleet.catalog.prices.row import split_licensed_machine
from gpufleet.errors import InputError

LONGEST_NAME = 80  # characters of a name that is compared with all known ones
MAX_TIES = 3
CUTOFF = 0.8  # a new machine or region must not be taken for a distant one
STATUS = "gpufleet prices status lists the prices"


def load_priced_names() -> KnownNames:
    """Return the clouds, regions, machines and parts of the catalogue, the snapshot and the price store."""
    store = open_price_reader()
    return load_known_names(store.connection if store else None)


def is_priced_region(cloud: str, region: str) -> bool:
    """Return whether the catalogue or the snapshot has a price in a region; it does not read the price store."""
    return region in data_file.list_accelerator_regions(cloud) or any(
        (each_cloud, each_region) == (cloud, region)
        for each_cloud, each_region, _ in snapshot.list_region_members()
    )


def find_similar_names(name: str, known_names: Iterable[str], cutoff: float = CUTOFF) -> tuple[str, ...]:
    """Return the known names that are equally and most like a name, whatever its case; none if the name is known."""
    by_lowercase = {known.lower(): known for known in known_names}
    if len(name) > LONGEST_NAME or name in by_lowercase.values():
        return ()
    lowercase = name.lower()
    matches = get_close_matches(lowercase, by_lowercase, n=MAX_TIES, cutoff=cutoff)
    # us-esat-1 is as close to us-west-1, but two swapped letters are the likelier mistake
    swapped = [match for match in matches if sorted(match) == sorted(lowercase)]
    likeness = {match: SequenceMatcher(None, match, lowercase).ratio() for match in swapped or matches}
    best = max(likeness.values(), default=0.0)
    return tuple(sorted(by_lowercase[match] for match, ratio in likeness.items() if ratio == best))


def suggest_region(cloud: str, region: str, names: KnownNames) -> str:
    """Return a question about the region of a cloud that a misspelt one means, empty if none is close."""
    return ask_about_names(find_similar_names(region, names.regions.get(cloud, ())))


def suggest_machine(cloud: str, machine: str, names: KnownNames) -> str:
    """Return a question about the machine of a cloud that a misspelt one means; a licensed system stays."""
    plain, system = split_licensed_machine(machine)
    similar = find_similar_names(plain, names.items.get(cloud, ()))
    return ask_about_names(tuple(f"{each}:{system}" if system else each for each in similar))


def ask_about_names(names: tuple[str, ...]) -> str:
    """Return "did you mean eastus or westus?", empty without names."""
    return f"did you mean {' or '.join(names)}?" if names else ""


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
    if machine and split_licensed_machine(machine)[0] not in machines and ":" not in machine:
        raise _unknown_name_error("machine", machine, machines)


def _unknown_name_error(kind: str, name: str, known_names: Iterable[str]) -> InputError:
    remedy = ask_about_names(find_similar_names(name, known_names, cutoff=0.6)) or STATUS
    return InputError(f"no price is known for {kind} {shorten_repr(name)}", where=f"--{kind}", remedy=remedy)
