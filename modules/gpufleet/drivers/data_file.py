"""The driver data files as typed values, each file read once per process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from gpufleet.boundary import CsvRow, build_from_row, read_packaged_rows, read_packaged_yaml, read_table
from gpufleet.rule import Rule

PACKAGE = "gpufleet.drivers"
Row = CsvRow
Model = TypeVar("Model")


@dataclass(frozen=True)
class GpuCard:
    """One kind of card. ``pci`` is vendor:device; ``subsystem`` distinguishes boards that share it."""

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
    def display_name(self) -> str:
        """Return the catalogue's name if there is exactly one, else the PCI name."""
        return self.catalogue[0] if len(self.catalogue) == 1 else self.name


@dataclass(frozen=True)
class GpuArchitecture:
    """The driver and toolkit support of a GPU generation; for other vendors only the vendor."""

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
class DriverBranch:
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
    """A CUDA release: the driver it was released with, and the lowest branch that runs it."""

    version: str
    toolkit_driver: str
    min_driver: int
    sources: tuple[str, ...]
    as_of: str


@dataclass(frozen=True)
class RocmSupport:
    """One cell of a ROCm release's support grid: processors on a system.

    ``cards`` limits it to these PCI ids, ``versions`` to these minor releases; empty: all.
    """

    release: str
    system: str
    gfx: tuple[str, ...]
    cards: tuple[str, ...]
    versions: tuple[str, ...]
    kernels: tuple[str, ...]
    sources: tuple[str, ...]
    as_of: str

    def includes_card(self, card: GpuCard) -> bool:
        """Return whether the cell lists a card."""
        return card.gfx in self.gfx and (not self.cards or card.pci in self.cards)


@dataclass(frozen=True)
class RocmRelease:
    """A ROCm release: its repository directory, package names, drivers (the preferred first) and support grid."""

    release: str
    directory: str
    stream: str
    drivers: tuple[str, ...]
    has_graphics: bool
    support: tuple[RocmSupport, ...]
    sources: tuple[str, ...]
    as_of: str

    @property
    def gfx(self) -> tuple[str, ...]:
        """Return the processors that the release lists on any system."""
        return tuple(dict.fromkeys(gfx for cell in self.support for gfx in cell.gfx))

    @property
    def systems(self) -> tuple[str, ...]:
        """Return the systems that the release lists."""
        return tuple(dict.fromkeys(cell.system for cell in self.support))


@dataclass(frozen=True)
class AmdDriver:
    """A release of AMD's packaged kernel driver.

    ``versions``: RHEL's minor releases with a repository. ``breaks_from``: the first kernel on which its module is
    known not to build.
    """

    release: str
    module: str
    systems: tuple[str, ...]
    versions: tuple[str, ...]
    breaks_from: str
    sources: tuple[str, ...]
    as_of: str


@dataclass(frozen=True)
class NvidiaKernelBreak:
    """Kernels on which NVIDIA's module does not build: from ``breaks_from`` on, before the version ``fixed_in``.

    Without ``fixed_in`` no release of the branch builds. ``origin`` is ``debian`` for its own packages, whose revision
    counts. ``certainty``: ``confirmed`` by NVIDIA, a distribution or several reports, or ``reported`` once.
    """

    branch: int
    origin: str
    breaks_from: str
    fixed_in: str
    certainty: str
    sources: tuple[str, ...]
    as_of: str


@dataclass(frozen=True)
class AmdProcessor:
    """What the kernel's own amdgpu needs for a processor: firmware files, kernel, Mesa.

    ``…_without`` is the newest version read that does not know it, ``…_with`` the oldest that does.
    """

    gfx: str
    firmware: str
    kernel_without: str
    kernel_with: str
    mesa_without: str
    mesa_with: str
    sources: tuple[str, ...]
    as_of: str


@dataclass(frozen=True)
class AmdFirmware:
    """The firmware of processors in one version of a distribution's package."""

    distribution: str
    version: str
    contains: tuple[str, ...]
    sources: tuple[str, ...]
    as_of: str


@dataclass(frozen=True)
class SigningKey:
    """A repository's signing key. ``url`` may contain ``{uri}``, the repository's address.

    Without fingerprints, no two independent places confirm the key.
    """

    name: str
    url: str
    fingerprints: tuple[str, ...]
    sources: tuple[str, ...]
    as_of: str


def load_csv_rows(file_name: str) -> list[Row]:
    """Return the rows of one CSV file."""
    return read_packaged_rows(PACKAGE, f"data/{file_name}")


@cache
def load_yaml_document(file_name: str) -> Mapping[str, Any]:
    """Return one YAML file."""
    loaded: Mapping[str, Any] = read_packaged_yaml(PACKAGE, f"data/{file_name}")
    return loaded


@cache
def load_gpu_cards() -> dict[tuple[str, str], GpuCard]:
    """Return every card by PCI id and subsystem (empty: any)."""
    rows = load_csv_rows("cards.csv")
    cards = [build_from_row(GpuCard, row, catalogue=row.get_words("catalogue", "; ")) for row in rows]
    return {(card.pci, card.subsystem): card for card in cards}


@cache
def load_gpu_architectures() -> dict[str, GpuArchitecture]:
    """Return every architecture by name."""
    return {each.name: each for each in _read_table(GpuArchitecture, "architectures.csv")}


@cache
def load_driver_branches() -> dict[int, DriverBranch]:
    """Return NVIDIA's branches by number."""
    return {branch.number: branch for branch in _read_table(DriverBranch, "branches.csv")}


@cache
def load_cuda_releases() -> dict[str, CudaRelease]:
    """Return the CUDA releases by version."""
    return {release.version: release for release in _read_table(CudaRelease, "cuda.csv")}


@cache
def load_rocm_releases() -> dict[str, RocmRelease]:
    """Return the ROCm releases by version, newest first."""
    cells: dict[str, list[RocmSupport]] = {}
    for cell in load_rocm_support():
        cells.setdefault(cell.release, []).append(cell)
    return {
        row["release"]: build_from_row(RocmRelease, row, support=tuple(cells.get(row["release"], ())))
        for row in load_csv_rows("rocm.csv")
    }


@cache
def load_rocm_support() -> tuple[RocmSupport, ...]:
    """Return the cells of every ROCm release's support grid."""
    return tuple(_read_table(RocmSupport, "rocm_support.csv"))


@cache
def load_amd_drivers() -> dict[str, AmdDriver]:
    """Return AMD's packaged kernel drivers by release, newest first."""
    return {driver.release: driver for driver in _read_table(AmdDriver, "amdgpu.csv")}


@cache
def load_nvidia_kernel_breaks() -> tuple[NvidiaKernelBreak, ...]:
    """Return the kernels on which NVIDIA's modules are known not to build."""
    return tuple(_read_table(NvidiaKernelBreak, "nvidia_kernels.csv"))


@cache
def load_amd_processors() -> dict[str, AmdProcessor]:
    """Return by processor what the kernel's own amdgpu needs."""
    return {row.gfx: row for row in _read_table(AmdProcessor, "amd_processors.csv")}


@cache
def load_amd_firmware() -> tuple[AmdFirmware, ...]:
    """Return the versions of firmware packages with what they contain."""
    return tuple(_read_table(AmdFirmware, "amd_firmware.csv"))


@cache
def load_repository_keys() -> dict[str, SigningKey]:
    """Return the signing keys of the vendors' repositories by name."""
    return {key.name: key for key in _read_table(SigningKey, "keys.csv")}


@cache
def load_driver_data_sources() -> dict[str, Row]:
    """Return every source by its id."""
    return {row["id"]: row for row in load_csv_rows("sources.csv")}


def load_system_package_tables() -> Mapping[str, Any]:
    """Return the package names by system."""
    return load_yaml_document("systems.yaml")


@cache
def load_plan_rules() -> dict[str, Rule]:
    """Return every rule by its code; the source is the id of a row in ``sources.csv``."""
    return {
        code: Rule(code, entry["message"], entry["source"], entry.get("remedy", ""), "remedy" in entry)
        for code, entry in load_yaml_document("rules.yaml").items()
    }


def _read_table(model: type[Model], file_name: str) -> list[Model]:
    return read_table(model, PACKAGE, f"data/{file_name}")
