from __future__ import annotations

from datetime import date
from difflib import get_close_matches

from gpufleet.catalog import accelerator_name, data_file
from gpufleet.catalog.accelerator import load_accelerators, with_memory_size
from gpufleet.catalog.cloud import CLOUDS
from gpufleet.catalog.entry import Accelerator, Machine, MachineRetirement, Price
from gpufleet.catalog.prices import reader, snapshot
from gpufleet.catalog.prices.row import Kind
from gpufleet.errors import InputError

SIMILARITY_CUTOFF = 0.6  # difflib's own default; a lower value suggests p5 for n1


def get_machine(name: str, cloud: str | None = None) -> Machine:
    """Return the machine of that name; raise InputError with alternatives if it is unknown or retired."""
    matches = [
        candidate
        for (machine_cloud, machine_name), candidate in data_file.load_machines().items()
        if machine_name == name and cloud in (None, machine_cloud)
    ]
    if matches:
        return matches[0]
    retirement = find_machine_retirement(name, cloud)
    if retirement:
        raise InputError(
            f"{name} was retired by {retirement.cloud} on {retirement.retired}",
            remedy=f"use {_join_alternatives(retirement.substitutes)}",
        )
    raise InputError(
        f"unknown {cloud + ' ' if cloud else ''}machine {name!r}", remedy=_suggest_machines(name, cloud)
    )


def find_machine(name: str, cloud: str) -> Machine | None:
    """Return a machine of a cloud, with accelerators or without; None if it is unknown."""
    return data_file.load_machines().get((cloud, name)) or snapshot.find_sized_machine(cloud, name)


def find_ordinary_machine(name: str, cloud: str | None = None) -> Machine | None:
    """Return a machine without accelerators, with its vCPUs and memory; None if the snapshot does not have it."""
    machines = (snapshot.find_sized_machine(each, name) for each in (CLOUDS if cloud is None else [cloud]))
    return next((machine for machine in machines if machine), None)


def find_machine_retirement(name: str, cloud: str | None = None) -> MachineRetirement | None:
    """Return the retirement of that machine, None if it is not retired."""
    for (machine_cloud, machine_name), retirement in data_file.load_retirements().items():
        if machine_name == name and cloud in (None, machine_cloud):
            return retirement
    return None


def get_accelerator(name: str) -> Accelerator:
    """Return the accelerator of that name, alias or unambiguous part; "RX 460 4GB" selects the memory size.

    "M1 Pro" is the full chip. A bin of it needs its own name ("M1 Pro (14)"), or a memory size that only the bin
    has ("M3 Max 36GB").
    """
    accelerators = load_accelerators()
    if name in accelerators:
        return accelerators[name]
    aliases = {known_name: part.aliases for known_name, part in accelerators.items()}
    candidates = [accelerators[item] for item in accelerator_name.find_matching_names(name, aliases)]
    if not candidates and (sized_query := accelerator_name.split_memory_size(name)):
        candidates = _filter_by_memory(
            [accelerators[item] for item in accelerator_name.find_matching_names(sized_query[0], aliases)],
            name,
            sized_query[1],
        )
    matches = [part for part in candidates if part.bin_of not in {other.name for other in candidates}]
    if len(matches) == 1:
        return matches[0]
    if candidates:
        names = ", ".join(part.name for part in candidates)
        raise InputError(f"accelerator {name!r} is ambiguous", remedy=f"name one of: {names}")
    suggestions = accelerator_name.find_similar_names(name, accelerators)[:4] or get_close_matches(
        name, accelerators, n=3, cutoff=SIMILARITY_CUTOFF
    )
    raise InputError(
        f"unknown accelerator {name!r}",
        remedy=f"did you mean {_join_alternatives(suggestions)}?"
        if suggestions
        else f"the catalogue has {_format_names(list(accelerators))}",
    )


def _filter_by_memory(parts: list[Accelerator], name: str, gib: float) -> list[Accelerator]:
    """Return the parts that are sold with that memory size; raise InputError with the sizes if there are none."""
    versions = [version for part in parts if (version := with_memory_size(part, gib))]
    if parts and not versions:
        sizes = ", ".join(
            sorted(
                {f"{size:g}" for part in parts for size in (*part.memory_options, part.memory_gib)}, key=float
            )
        )
        raise InputError(
            f"no {name!r}", remedy=f"{parts[0].name if len(parts) == 1 else 'these'} come with {sizes} GB"
        )
    return versions


def find_machine_price(
    cloud: str, region: str, machine: str, purchase: str, on_date: date | None = None
) -> Price | None:
    """Return the newest list price of a machine dated ``on_date`` or earlier; None if no reliable price is known.

    ``machine`` may name a licensed system: ``m5.large:windows``, ``:rhel``, ``:sles``. Without one it is Linux.
    """
    return _find_newest_price("machine", (cloud, region, machine, purchase), on_date)


def find_cloud_part_price(
    cloud: str, region: str, part: str, purchase: str = "on_demand", on_date: date | None = None
) -> Price | None:
    """Return the price of a part (disk, address, attached card, database) per unit and hour."""
    return _find_newest_price("part", (cloud, region, part, purchase), on_date)


def _find_newest_price(kind: Kind, key: data_file.PriceKey, on_date: date | None) -> Price | None:
    """Return the newest embedded or stored price; of the same day, the stored one. Undated prices are oldest."""
    listed = data_file.load_machine_prices() if kind == "machine" else data_file.load_cloud_part_prices()
    embedded = [price for price in (listed.get(key), snapshot.find_snapshot_price(kind, *key)) if price]
    days = [price.earliest_price_date for price in embedded]
    candidates = [
        (day.isoformat() if day else "", price)
        for price, day in zip(embedded, days, strict=True)
        if on_date is None or day is None or day <= on_date
    ]
    newest = max(candidates, key=lambda candidate: candidate[0], default=None)
    store = reader.open_price_reader()
    stored_price = store.find_newest_price(*key, on_date) if store else None
    if stored_price is None or (newest is not None and stored_price[1] < newest[0]):
        return newest[1] if newest else None
    return stored_price[0]


def list_machine_regions(cloud: str, machine: str) -> tuple[str, ...]:
    """Return the regions in which the catalogue has a price for that machine."""
    regions = {key[1] for key in data_file.load_machine_prices() if (key[0], key[2]) == (cloud, machine)}
    regions.update(snapshot.list_snapshot_regions(cloud, machine))
    store = reader.open_price_reader()
    if store:
        query = "SELECT DISTINCT region FROM current WHERE cloud = ? AND item = ?"
        regions |= {region for (region,) in store.run_query(query, cloud, machine)}
    return tuple(sorted(regions))


def _suggest_machines(name: str, cloud: str | None) -> str:
    names = {
        known_name.lower(): known_name
        for (machine_cloud, known_name) in data_file.load_machines()
        if cloud in (None, machine_cloud)
    }
    starting_alike = [known for known in sorted(names) if len(name) > 1 and known.startswith(name.lower())]
    suggestions = starting_alike[:3] or get_close_matches(name.lower(), names, n=3, cutoff=SIMILARITY_CUTOFF)
    if suggestions:
        return f"did you mean {_join_alternatives([names[match] for match in suggestions])}?"
    other_clouds = [of for (of, known) in data_file.load_machines() if known == name]
    if other_clouds:
        return f"{name} is a machine of {other_clouds[0]}"
    return f"the catalogue has {_format_names(list(names.values()))}"


def _format_names(names: list[str]) -> str:
    listed_names = sorted(names)[:6]
    return (
        f"{', '.join(listed_names)} and {len(names) - len(listed_names)} more"
        if len(names) > len(listed_names)
        else ", ".join(listed_names)
    )


def _join_alternatives(names: list[str] | tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
