"""The data files as typed rows. Everything is read once per process and never changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from gpufleet.boundary import packaged_rows, packaged_yaml

Row = dict[str, str]


@dataclass(frozen=True)
class Card:
    """One kind of card. ``pci`` is vendor:device; a row with a subsystem tells apart boards that share it."""

    pci: str
    subsystem: str
    name: str
    catalogue: tuple[str, ...]
    architecture: str
    market: str
    gfx: str
    fabric: str
    mig_driver: str
    first_branch: int | None
    module: str
    sources: tuple[str, ...]
    as_of: str

    @property
    def label(self) -> str:
        """Return the catalogue's name where there is exactly one, the PCI name otherwise."""
        return self.catalogue[0] if len(self.catalogue) == 1 else self.name


@dataclass(frozen=True)
class Architecture:
    """What NVIDIA's drivers and toolkits do for a generation; for others only its maker."""

    name: str
    vendor: str
    first_branch: int | None
    last_branch: int | None
    open: bool
    proprietary: bool
    first_cuda: str
    last_cuda: int | None
    sources: tuple[str, ...]
    as_of: str


@dataclass(frozen=True)
class Branch:
    """One driver branch of NVIDIA."""

    number: int
    kind: str
    end_of_life: str
    max_cuda: int
    proprietary: bool
    default_module: str
    sources: tuple[str, ...]
    as_of: str


@dataclass(frozen=True)
class CudaRelease:
    """A CUDA release: the driver it was released with, and the least branch that runs it."""

    version: str
    toolkit_driver: str
    least_driver: int
    sources: tuple[str, ...]
    as_of: str


@dataclass(frozen=True)
class RocmRelease:
    """A ROCm release: the processors, systems and kernels that its maker lists; ``only`` cards on some systems."""

    release: str
    stream: str
    gfx: tuple[str, ...]
    systems: tuple[str, ...]
    kernels: Mapping[str, tuple[str, ...]]
    only: Mapping[str, tuple[str, ...]]
    driver: str
    sources: tuple[str, ...]
    as_of: str


@dataclass(frozen=True)
class AmdDriver:
    """A release of AMD's packaged kernel driver, and the kernels from which on its module does not build."""

    release: str
    module: str
    rocm: tuple[str, ...]
    systems: tuple[str, ...]
    breaks_from: str
    sources: tuple[str, ...]
    as_of: str


def rows(name: str) -> list[Row]:
    """Return the rows of one CSV file."""
    return packaged_rows("gpufleet.drivers", f"data/{name}")


@cache
def document(name: str) -> Mapping[str, Any]:
    """Return one YAML file."""
    loaded: Mapping[str, Any] = packaged_yaml("gpufleet.drivers", f"data/{name}")
    return loaded


@cache
def cards() -> dict[tuple[str, str], Card]:
    """Return every card by PCI id and subsystem (empty: any)."""
    return {(row["pci"], row["subsystem"]): _card(row) for row in rows("cards.csv")}


@cache
def architectures() -> dict[str, Architecture]:
    """Return every architecture by name."""
    return {row["architecture"]: _architecture(row) for row in rows("architectures.csv")}


@cache
def branches() -> dict[int, Branch]:
    """Return NVIDIA's branches by number."""
    return {int(row["branch"]): _branch(row) for row in rows("branches.csv")}


@cache
def cuda_releases() -> dict[str, CudaRelease]:
    """Return the CUDA releases by version."""
    return {
        row["cuda"]: CudaRelease(
            row["cuda"],
            row["toolkit_driver"],
            int(row["least_driver"]),
            tuple(row["sources"].split()),
            row["as_of"],
        )
        for row in rows("cuda.csv")
    }


@cache
def rocm_releases() -> dict[str, RocmRelease]:
    """Return the ROCm releases by version, newest first."""
    return {
        row["release"]: RocmRelease(
            row["release"],
            row["stream"],
            tuple(row["gfx"].split()),
            tuple(row["systems"].split()),
            _by_system(row["kernels"]),
            _by_system(row["only"]),
            row["driver"],
            tuple(row["sources"].split()),
            row["as_of"],
        )
        for row in rows("rocm.csv")
    }


@cache
def amd_drivers() -> dict[str, AmdDriver]:
    """Return AMD's packaged kernel drivers by release, newest first."""
    return {
        row["driver"]: AmdDriver(
            row["driver"],
            row["module"],
            tuple(row["rocm"].split()),
            tuple(row["systems"].split()),
            row["breaks_from"],
            tuple(row["sources"].split()),
            row["as_of"],
        )
        for row in rows("amdgpu.csv")
    }


@cache
def sources() -> dict[str, Row]:
    """Return every source by its id."""
    return {row["id"]: row for row in rows("sources.csv")}


def systems() -> Mapping[str, Any]:
    """Return the package names by system."""
    return document("systems.yaml")


def rules() -> Mapping[str, Mapping[str, str]]:
    """Return the words and sources of every rule by its code."""
    return document("rules.yaml")


def _card(row: Row) -> Card:
    return Card(
        pci=row["pci"],
        subsystem=row["subsystem"],
        name=row["name"],
        catalogue=tuple(part for part in row["catalogue"].split("; ") if part),
        architecture=row["architecture"],
        market=row["market"],
        gfx=row["gfx"],
        fabric=row["fabric"],
        mig_driver=row["mig_driver"],
        first_branch=_number(row["first_branch"]),
        module=row["module"],
        sources=tuple(row["sources"].split()),
        as_of=row["as_of"],
    )


def _architecture(row: Row) -> Architecture:
    return Architecture(
        name=row["architecture"],
        vendor=row["vendor"],
        first_branch=_number(row["first_branch"]),
        last_branch=_number(row["last_branch"]),
        open=row["open"] == "yes",
        proprietary=row["proprietary"] == "yes",
        first_cuda=row["first_cuda"],
        last_cuda=_number(row["last_cuda"]),
        sources=tuple(row["sources"].split()),
        as_of=row["as_of"],
    )


def _branch(row: Row) -> Branch:
    return Branch(
        number=int(row["branch"]),
        kind=row["kind"],
        end_of_life=row["end_of_life"],
        max_cuda=int(row["max_cuda"]),
        proprietary=row["proprietary"] == "yes",
        default_module=row["default_module"],
        sources=tuple(row["sources"].split()),
        as_of=row["as_of"],
    )


def _number(text: str) -> int | None:
    return int(text) if text else None


def _by_system(text: str) -> dict[str, tuple[str, ...]]:
    """Read ``debian-12=6.1 rhel-9=5.14``."""
    pairs = (part.partition("=") for part in text.split())
    return {system: tuple(values.split(",")) for system, _, values in pairs}
