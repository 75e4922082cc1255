"""Find hardware by name: a cloud machine, an owned rack or workstation, or a bare accelerator in its default host."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from gpufleet import catalog
from gpufleet.catalog import Accelerator, accelerator_name, data_file
from gpufleet.errors import InputError
from gpufleet.quick_dataclass import dataclass
from gpufleet.sizing.attached_hardware import find_attached_hardware, list_attachable_cards
from gpufleet.sizing.hardware import Hardware
from gpufleet.sizing.node_hardware import (
    build_accelerator_hardware,
    build_machine_hardware,
    scale_accelerator,
)
from gpufleet.sizing.owned_hardware import find_owned_hardware, find_rack_of_node, list_owned_hardware_names
from gpufleet.sizing.plan_warning import PlanWarning

NAME_AND_MEMORY = re.compile(r"^(?P<name>.*?)[\s(]*(?P<gib>\d+)\s*gi?b\)?$", re.IGNORECASE)
MIN_WORD_LENGTH = 3  # two letters are in half the catalogue


@dataclass(frozen=True)
class ResolvedHardware:
    """Hardware and the warnings about how its name was resolved."""

    hardware: Hardware
    warnings: tuple[PlanWarning, ...] = ()


def resolve_hardware(name: str, root: Path | None = None) -> ResolvedHardware:
    """Return the hardware of that name; raise InputError with similar names for an unknown one."""
    return resolve_hardware_alternatives(name, root)[0]


def resolve_hardware_alternatives(name: str, root: Path | None = None) -> list[ResolvedHardware]:
    """Return the hardware of that name: of a rack each kind of its nodes, of a retired machine all its substitutes.

    Substitutes have a warning, and the best one is first.
    """
    query = " ".join(name.split())
    if not query:
        raise InputError("is empty", where="--on", remedy="name a machine, a rack or an accelerator")
    found = next(_find_candidates(query, root), None)
    if found:
        return found
    raise InputError(f"unknown hardware {name!r}", where="--on", remedy=_suggest_names(query, root))


def _find_candidates(query: str, root: Path | None) -> Iterator[list[ResolvedHardware]]:
    if attached := find_attached_hardware(query):
        yield [ResolvedHardware(attached)]
    machine = _find_machine(query)
    if machine is not None:
        yield [ResolvedHardware(machine)]
    if substitutes := list(_find_substitutes(query)):
        yield substitutes
    if owned := find_owned_hardware(query, root):
        yield [ResolvedHardware(hardware) for hardware in owned]
    yield from ([resolved] for resolved in _find_accelerator(query))


def _find_machine(query: str) -> Hardware | None:
    name = _expand_family(query.lower())
    for machine in data_file.load_machines().values():
        if machine.name.lower() == name:
            hardware = build_machine_hardware(machine)
            if hardware is None and machine.cloud == "onprem":
                return None  # a kind of board: known as a part, if at all
            if hardware is None:
                cards = list_attachable_cards(machine) if machine.attachable else []
                remedy = f"it accepts {', '.join(cards)}: write {machine.name} + {cards[0]}" if cards else ""
                raise InputError(f"{machine.name} has no accelerator", where="--on", remedy=remedy)
            return hardware
    return None


def _expand_family(family: str) -> str:
    """Return the only size of a family such as "p4d"; raise InputError if it has several."""
    sizes = [name for _, name in data_file.load_machines() if name.lower().startswith(f"{family}.")]
    if len(sizes) > 1:
        raise InputError(
            f"{family!r} has several sizes", where="--on", remedy=f"name one of: {', '.join(sizes)}"
        )
    return sizes[0].lower() if sizes else family


def _find_substitutes(query: str) -> Iterator[ResolvedHardware]:
    for retirement in data_file.load_retirements().values():
        if retirement.machine.lower() != query.lower():
            continue
        for name in retirement.substitutes:
            substitute = _find_machine(name)
            if substitute is not None:
                text = (
                    f"{retirement.cloud} retired {retirement.machine} on {retirement.retired}; "
                    f"use {' or '.join(retirement.substitutes)}: sized on {name} instead"
                )
                yield ResolvedHardware(substitute, (PlanWarning("retired-machine", text, retirement.source),))


def _find_accelerator(query: str) -> Iterator[ResolvedHardware]:
    """Yield the accelerator of that name; a memory size at its end chooses among its memory options."""
    try:
        yield ResolvedHardware(build_accelerator_hardware(catalog.get_accelerator(query)))
    except InputError as error:
        match = NAME_AND_MEMORY.match(query)
        if match is not None:
            yield from _find_accelerator_by_memory(match["name"], float(match["gib"]), query)
        if "ambiguous" in error.problem:
            raise InputError(error.problem, where="--on", remedy=error.remedy) from None


def _find_accelerator_by_memory(name: str, gib: float, query: str) -> Iterator[ResolvedHardware]:
    try:
        yield ResolvedHardware(
            build_accelerator_hardware(_with_memory_option(catalog.get_accelerator(name), gib, query))
        )
    except InputError as error:
        if "does not exist" in error.problem:
            raise
        accelerators = catalog.load_accelerators()
        candidates = accelerator_name.find_matching_names(
            name, {candidate: accelerator.aliases for candidate, accelerator in accelerators.items()}
        )
        fitting = [
            accelerators[candidate]
            for candidate in candidates
            if gib in _memory_options(accelerators[candidate])
        ]
        if len(fitting) == 1:
            yield ResolvedHardware(build_accelerator_hardware(scale_accelerator(fitting[0], gib, 1.0)))
        elif fitting:
            remedy = f"name one of: {', '.join(accelerator.name for accelerator in fitting)}"
            raise InputError(f"{query!r} is ambiguous", where="--on", remedy=remedy) from None


def _memory_options(accelerator: Accelerator) -> tuple[float, ...]:
    return accelerator.memory_options or (accelerator.memory_gib,)


def _with_memory_option(accelerator: Accelerator, gib: float, query: str) -> Accelerator:
    """Return the accelerator with that memory; raise InputError with its options for a size that does not exist."""
    sizes = _memory_options(accelerator)
    if gib not in sizes:
        options_text = f"{accelerator.name} has {_join_sizes(sizes)} GB"
        problem = f"at most {max(sizes):g} GB" if gib > max(sizes) else f"no {gib:g} GB"
        raise InputError(
            f"{query!r} does not exist: {problem}",
            where="--on",
            remedy=f"{options_text} ({accelerator.source})",
        )
    return scale_accelerator(accelerator, gib, 1.0)


def _join_sizes(sizes: tuple[float, ...]) -> str:
    return ", ".join(f"{size:g}" for size in sizes)


def _suggest_names(query: str, root: Path | None) -> str:
    names = {name.lower(): name for _, name in data_file.load_machines()}
    names |= {name.lower(): name for name in catalog.load_accelerators()}
    names |= {name.lower(): name for name in list_owned_hardware_names(root)}
    lowercase_query = query.lower()
    if rack := find_rack_of_node(lowercase_query, root):
        return f"it is a node of the rack {rack}: give --on {rack}"
    from difflib import get_close_matches

    racks = get_close_matches(lowercase_query, list_owned_hardware_names(root), n=1, cutoff=0.8)
    if racks:
        return f"did you mean {racks[0]}?"
    similar = accelerator_name.find_similar_names(query, catalog.load_accelerators())[:4]
    if similar:
        return f"did you mean {' or '.join(similar)}?"
    close = get_close_matches(lowercase_query, names, n=3, cutoff=0.6)
    tokens = [token for token in lowercase_query.split() if len(token) >= MIN_WORD_LENGTH]
    close = close or [name for name in names if any(token in name for token in tokens)][:3]
    if close:
        return f"did you mean {' or '.join(names[name] for name in close)}?"
    return "name a cloud's machine (p4d.24xlarge), a rack of inventory/ or an accelerator (H100 SXM5 80GB)"
