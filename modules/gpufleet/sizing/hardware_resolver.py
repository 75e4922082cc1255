"""From a name to hardware: a cloud's machine, a rack or workstation of ours, or a bare part in its usual host."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from gpufleet import catalog
from gpufleet.catalog import Accelerator, naming, table
from gpufleet.errors import InputError
from gpufleet.sizing.hardware import Hardware
from gpufleet.sizing.node_hardware import (
    build_accelerator_hardware,
    build_machine_hardware,
    scale_accelerator,
)
from gpufleet.sizing.owned_hardware import find_owned_hardware, list_owned_names
from gpufleet.sizing.plan_warning import PlanWarning

NAME_AND_MEMORY = re.compile(r"^(?P<name>.*?)[\s(]*(?P<gib>\d+)\s*gi?b\)?$", re.IGNORECASE)
MIN_WORD_LENGTH = 3  # two letters are in half the catalogue


@dataclass(frozen=True)
class ResolvedHardware:
    """Hardware, and what is to be said of how its name was understood."""

    hardware: Hardware
    warnings: tuple[PlanWarning, ...] = ()


def resolve_hardware(name: str, root: Path | None = None) -> ResolvedHardware:
    """Return the hardware of that name; what nobody knows is an InputError with the nearest names."""
    return resolve_alternatives(name, root)[0]


def resolve_alternatives(name: str, root: Path | None = None) -> list[ResolvedHardware]:
    """Return the hardware of that name; of a machine that is retired everything that stands in for it, best first."""
    asked = " ".join(name.split())
    if not asked:
        raise InputError("is empty", where="--on", remedy="name a machine, a rack or an accelerator")
    for found in _find_candidates(asked, root):
        return list(_find_substitutes(asked)) if found.warnings else [found]
    raise InputError(f"unknown hardware {name!r}", where="--on", remedy=_suggest_names(asked, root))


def _find_candidates(asked: str, root: Path | None) -> Iterator[ResolvedHardware]:
    machine = _find_machine(asked)
    if machine is not None:
        yield ResolvedHardware(machine)
    yield from _find_substitutes(asked)
    owned = find_owned_hardware(asked, root)
    if owned is not None:
        yield ResolvedHardware(owned)
    yield from _find_accelerator(asked)


def _find_machine(asked: str) -> Hardware | None:
    wanted = _expand_family(asked.lower())
    for machine in table.load_machines().values():
        if machine.name.lower() == wanted:
            hardware = build_machine_hardware(machine)
            if hardware is None and machine.cloud == "onprem":
                return None  # a kind of board: known as a part, if at all
            if hardware is None:
                remedy = f"it takes {', '.join(machine.attachable)}: name that" if machine.attachable else ""
                raise InputError(f"{machine.name} has no accelerator of its own", where="--on", remedy=remedy)
            return hardware
    return None


def _expand_family(wanted: str) -> str:
    """Return the machine that a family such as "p4d" is, as far as it has one size; several are an InputError."""
    sizes = [name for _, name in table.load_machines() if name.lower().startswith(f"{wanted}.")]
    if len(sizes) > 1:
        raise InputError(
            f"{wanted!r} has several sizes", where="--on", remedy=f"name one of: {', '.join(sizes)}"
        )
    return sizes[0].lower() if sizes else wanted


def _find_substitutes(asked: str) -> Iterator[ResolvedHardware]:
    for gone in table.load_retirements().values():
        if gone.machine.lower() != asked.lower():
            continue
        for name in gone.substitutes:
            found = _find_machine(name)
            if found is not None:
                text = (
                    f"{gone.cloud} retired {gone.machine} on {gone.retired}; use {' or '.join(gone.substitutes)}: "
                    f"sized on {name} instead"
                )
                yield ResolvedHardware(found, (PlanWarning("retired-machine", text, gone.source),))


def _find_accelerator(asked: str) -> Iterator[ResolvedHardware]:
    """Yield the part of that name; a memory size at its end chooses among the sizes that parts are sold with."""
    try:
        yield ResolvedHardware(build_accelerator_hardware(catalog.get_accelerator(asked)))
    except InputError as error:
        sized = NAME_AND_MEMORY.match(asked)
        if sized is not None:
            yield from _find_accelerator_by_memory(sized["name"], float(sized["gib"]), asked)
        if "ambiguous" in error.problem:
            raise InputError(error.problem, where="--on", remedy=error.remedy) from None


def _find_accelerator_by_memory(name: str, gib: float, asked: str) -> Iterator[ResolvedHardware]:
    try:
        yield ResolvedHardware(
            build_accelerator_hardware(_with_memory_option(catalog.get_accelerator(name), gib, asked))
        )
    except InputError as error:
        if "does not exist" in error.problem:
            raise
        known = catalog.load_accelerators()
        meant = naming.find_candidates(name, {each: part.aliases for each, part in known.items()})
        fitting = [known[each] for each in meant if gib in _memory_options(known[each])]
        if len(fitting) == 1:
            yield ResolvedHardware(build_accelerator_hardware(scale_accelerator(fitting[0], gib, 1.0)))
        elif fitting:
            remedy = f"name one of: {', '.join(part.name for part in fitting)}"
            raise InputError(f"{asked!r} is ambiguous", where="--on", remedy=remedy) from None


def _memory_options(part: Accelerator) -> tuple[float, ...]:
    return part.memory_options or (part.memory_gib,)


def _with_memory_option(part: Accelerator, gib: float, asked: str) -> Accelerator:
    """Return the part with so much memory; a size that it never had is refused with those it has."""
    sizes = _memory_options(part)
    if gib not in sizes:
        has = f"{part.name} has {_join_sizes(sizes)} GB"
        worst = f"at most {max(sizes):g} GB" if gib > max(sizes) else f"no {gib:g} GB"
        raise InputError(f"{asked!r} does not exist: {worst}", where="--on", remedy=f"{has} ({part.source})")
    return scale_accelerator(part, gib, 1.0)


def _join_sizes(sizes: tuple[float, ...]) -> str:
    return ", ".join(f"{size:g}" for size in sizes)


def _suggest_names(asked: str, root: Path | None) -> str:
    names = {name.lower(): name for _, name in table.load_machines()}
    names |= {name.lower(): name for name in catalog.load_accelerators()}
    names |= {name.lower(): name for name in list_owned_names(root)}
    wanted = asked.lower()
    others = naming.find_similar_names(asked, catalog.load_accelerators())[:4]
    if others:
        return f"did you mean {' or '.join(others)}?"
    close = get_close_matches(wanted, names, n=3, cutoff=0.6)
    parts = [word for word in wanted.split() if len(word) >= MIN_WORD_LENGTH]
    close = close or [name for name in names if any(part in name for part in parts)][:3]
    if close:
        return f"did you mean {' or '.join(names[name] for name in close)}?"
    return "name a cloud's machine (p4d.24xlarge), a rack of inventory/ or an accelerator (H100 SXM5 80GB)"
