"""Read a site's own table of cards (`gpu-cards.yaml`): cards that the shipped table does not have, or has otherwise."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from gpufleet.boundary import decode_yaml, validate_with_pydantic
from gpufleet.drivers.data_file import GpuCard, load_driver_branches, load_gpu_architectures
from gpufleet.errors import InputError
from gpufleet.fleet.frozen_model import DateText

MAX_CARDS = 200
VENDORS = {"10de": "nvidia", "1002": "amd"}
IsoDate = Annotated[DateText, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}$")]
PciId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{4}:[0-9a-f]{4}$")]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]


class CardEntry(BaseModel):
    """One card, as a person writes it; the columns are those of the shipped ``cards.csv``."""

    model_config = ConfigDict(extra="forbid", strict=True)

    pci: PciId
    subsystem: PciId | Literal[""] = ""
    name: Text
    architecture: Text
    market: Literal["datacenter", "workstation", "consumer", "laptop", "embedded", "apu", "integrated"]
    gfx: Annotated[str, StringConstraints(pattern=r"^gfx[0-9a-f]{3,4}$")] | Literal[""] = ""
    first_branch: int | None = None
    module: Literal["", "open"] = ""
    fabric: Literal["", "nvswitch", "nvlink5", "rack"] = ""
    mig_driver: Annotated[str, StringConstraints(pattern=r"^\d{3}(\.\d{1,3}){1,2}$")] | Literal[""] = ""
    source: Annotated[str, StringConstraints(strip_whitespace=True, min_length=10, max_length=500)]
    date: IsoDate


class CardFile(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    cards: Annotated[list[CardEntry], Field(max_length=MAX_CARDS)]


def parse_site_cards(text: str, where: str) -> tuple[GpuCard, ...]:
    """Return the cards of a file; anything wrong is one InputError with its place."""
    document = decode_yaml(text, where)
    if not isinstance(document, dict):
        raise InputError("must be a mapping with the key cards", where=where, remedy="see docs/drivers.md")
    seen: set[tuple[str, str]] = set()
    cards = []
    for number, entry in enumerate(validate_with_pydantic(CardFile, document, where).cards):
        key = f"cards.{number}"
        if (entry.pci, entry.subsystem) in seen:
            raise InputError(f"{entry.pci} {entry.subsystem} is there twice", where=where, key=key)
        seen.add((entry.pci, entry.subsystem))
        cards.append(_build_card(entry, where, key))
    return tuple(cards)


def _build_card(entry: CardEntry, where: str, key: str) -> GpuCard:
    """Return a card; raise InputError if its columns do not fit its vendor."""
    vendor = VENDORS.get(entry.pci[:4], "other")
    known = {row.name: row.vendor for row in load_gpu_architectures().values()}
    of_vendor = [
        name for name, owner in known.items() if owner == vendor and name not in ("integrated", "switch")
    ]
    if known.get(entry.architecture) != vendor:
        raise InputError(
            f"{entry.architecture!r} is not an architecture of a card with the id {entry.pci}",
            where=where,
            key=f"{key}.architecture",
            remedy=f"use one of {', '.join(of_vendor)}",
        )
    needs_gfx = vendor == "amd" and entry.market != "integrated"
    if needs_gfx != bool(entry.gfx):
        problem = "is missing: a card of AMD needs its processor" if needs_gfx else "must be empty"
        raise InputError(problem, where=where, key=f"{key}.gfx", remedy="see docs/drivers.md")
    branches = load_driver_branches()
    if (vendor == "nvidia") != (entry.first_branch is not None):
        problem = "is missing: a card of NVIDIA needs one" if vendor == "nvidia" else "must be left out"
        raise InputError(
            problem, where=where, key=f"{key}.first_branch", remedy=f"known: {', '.join(map(str, branches))}"
        )
    if entry.first_branch is not None and entry.first_branch not in branches:
        raise InputError(
            f"{entry.first_branch} is not a known branch",
            where=where,
            key=f"{key}.first_branch",
            remedy=f"use one of {', '.join(map(str, branches))}",
        )
    return GpuCard(
        pci=entry.pci,
        subsystem=entry.subsystem,
        name=entry.name,
        catalogue=(),
        architecture=entry.architecture,
        market=entry.market,
        gfx=entry.gfx,
        fabric=entry.fabric,
        mig_driver=entry.mig_driver,
        first_branch=entry.first_branch,
        module=entry.module,
        sources=(entry.source,),
        as_of=entry.date,
    )
