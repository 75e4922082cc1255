from __future__ import annotations

from datetime import date
from difflib import get_close_matches

from gpufleet.catalog import naming, table
from gpufleet.catalog.accelerators import accelerators, sized
from gpufleet.catalog.model import Accelerator, Machine, Price, Retirement
from gpufleet.catalog.prices import reader
from gpufleet.errors import InputError

CLOSE = 0.6  # difflib's own default; lower offers nonsense such as p5 for n1


def machine(name: str, cloud: str | None = None) -> Machine:
    """Return the machine of that name; an unknown or retired one is an InputError with what to use."""
    found = [m for (of, known), m in table.machines().items() if known == name and cloud in (None, of)]
    if found:
        return found[0]
    gone = retirement(name, cloud)
    if gone:
        raise InputError(
            f"{name} was retired by {gone.cloud} on {gone.retired}",
            remedy=f"use {_either(gone.substitutes)}",
        )
    raise InputError(f"unknown {cloud + ' ' if cloud else ''}machine {name!r}", remedy=_nearest(name, cloud))


def retirement(name: str, cloud: str | None = None) -> Retirement | None:
    """Return when and why that machine is no longer to be had, or None."""
    for (of, retired), gone in table.retirements().items():
        if retired == name and cloud in (None, of):
            return gone
    return None


def accelerator(name: str) -> Accelerator:
    """Return the accelerator of that name, alias or unambiguous part; "RX 460 4GB" is its version with 4 GB.

    "M1 Pro" is the whole chip: a bin of it ("M1 Pro (14)") is meant where it is named, or where only it has
    the memory that is asked for ("M3 Max 36GB").
    """
    known = accelerators()
    if name in known:
        return known[name]
    called = {item: part.aliases for item, part in known.items()}
    found = [known[item] for item in naming.candidates(name, called)]
    if not found and (asked := naming.memory_asked(name)):
        found = _with_memory([known[item] for item in naming.candidates(asked[0], called)], name, asked[1])
    meant = [part for part in found if part.bin_of not in {other.name for other in found}]
    if len(meant) == 1:
        return meant[0]
    if found:
        names = ", ".join(part.name for part in found)
        raise InputError(f"accelerator {name!r} is ambiguous", remedy=f"name one of: {names}")
    close = naming.near(name, known)[:4] or get_close_matches(name, known, n=3, cutoff=CLOSE)
    raise InputError(
        f"unknown accelerator {name!r}",
        remedy=f"did you mean {_either(close)}?" if close else f"the catalogue has {_some(list(known))}",
    )


def _with_memory(parts: list[Accelerator], name: str, gib: float) -> list[Accelerator]:
    """Return those parts that are sold with that much memory; none of them is an InputError with the sizes."""
    found = [version for part in parts if (version := sized(part, gib))]
    if parts and not found:
        sizes = ", ".join(
            sorted(
                {f"{size:g}" for part in parts for size in (*part.memory_options, part.memory_gib)}, key=float
            )
        )
        raise InputError(
            f"no {name!r}", remedy=f"{parts[0].name if len(parts) == 1 else 'these'} come with {sizes} GB"
        )
    return found


def price(cloud: str, region: str, machine: str, purchase: str, on: date | None = None) -> Price | None:
    """Return the newest list price of a machine, not dated after ``on``; None where none is trustworthy."""
    return _newest(table.prices(), (cloud, region, machine, purchase), on)


def part_price(
    cloud: str, region: str, part: str, purchase: str = "on_demand", on: date | None = None
) -> Price | None:
    """Return the price of something beside machines (disk, address, attached card) per its unit and hour."""
    return _newest(table.part_prices(), (cloud, region, part, purchase), on)


def _newest(embedded: dict[table.PriceKey, Price], key: table.PriceKey, on: date | None) -> Price | None:
    """Return the newer of embedded and stored price; of two of one day, the stored. Undated is oldest."""
    ours = embedded.get(key)
    day = ours.as_of_date.isoformat() if ours and ours.as_of_date else ""
    if on is not None and day > on.isoformat():
        ours, day = None, ""
    store = reader.opened()
    stored = store.newest(*key, on) if store else None
    if stored is None or (ours is not None and stored[1] < day):
        return ours
    return stored[0]


def regions_with(cloud: str, machine: str) -> tuple[str, ...]:
    """Return the regions in which the catalogue has a price for that machine."""
    found = {key[1] for key in table.prices() if (key[0], key[2]) == (cloud, machine)}
    store = reader.opened()
    if store:
        query = "SELECT DISTINCT region FROM current WHERE cloud = ? AND item = ?"
        found |= {region for (region,) in store.ask(query, cloud, machine)}
    return tuple(sorted(found))


def _nearest(name: str, cloud: str | None) -> str:
    names = {known.lower(): known for (of, known) in table.machines() if cloud in (None, of)}
    begun = [known for known in sorted(names) if len(name) > 1 and known.startswith(name.lower())]
    close = begun[:3] or get_close_matches(name.lower(), names, n=3, cutoff=CLOSE)
    if close:
        return f"did you mean {_either([names[match] for match in close])}?"
    elsewhere = [of for (of, known) in table.machines() if known == name]
    if elsewhere:
        return f"{name} is a machine of {elsewhere[0]}"
    return f"the catalogue has {_some(list(names.values()))}"


def _some(names: list[str]) -> str:
    shown = sorted(names)[:6]
    return (
        f"{', '.join(shown)} and {len(names) - len(shown)} more"
        if len(names) > len(shown)
        else ", ".join(shown)
    )


def _either(names: list[str] | tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
