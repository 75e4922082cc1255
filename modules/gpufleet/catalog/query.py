from __future__ import annotations

from gpufleet.catalog import accelerator_name, data_file
from gpufleet.catalog.accelerator import load_accelerators, with_memory_size
from gpufleet.catalog.entry import Accelerator, Machine, MachineRetirement
from gpufleet.errors import InputError

SIMILARITY_CUTOFF = 0.6  # difflib's own default; a lower value suggests p5 for n1


def get_machine(name: str, cloud: str | None = None) -> Machine:
    """Return the machine of that name; raise InputError with alternatives if it is unknown or retired."""
    machines = data_file.load_machines()
    # A fleet asks for each of its nodes: no search where the cloud is known.
    places = [(cloud, name)] if cloud is not None else [place for place in machines if place[1] == name]
    if places and (machine := machines.get(places[0])) is not None:
        return machine
    retirement = find_machine_retirement(name, cloud)
    if retirement:
        raise InputError(
            f"{name} was retired by {retirement.cloud} on {retirement.retired}",
            remedy=f"use {_join_alternatives(retirement.substitutes)}",
        )
    raise InputError(
        f"unknown {cloud + ' ' if cloud else ''}machine {name!r}", remedy=_suggest_machines(name, cloud)
    )


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
    from difflib import get_close_matches

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


def _suggest_machines(name: str, cloud: str | None) -> str:
    names = {
        known_name.lower(): known_name
        for (machine_cloud, known_name) in data_file.load_machines()
        if cloud in (None, machine_cloud)
    }
    starting_alike = [known for known in sorted(names) if len(name) > 1 and known.startswith(name.lower())]
    from difflib import get_close_matches

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
