"""Input and output of a plan: host facts, requested software, the plan. All classes are frozen."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from gpufleet.boundary import shorten_repr
from gpufleet.drivers.version import MAX_NUMBER_DIGITS
from gpufleet.errors import InputError

Vendor = Literal["nvidia", "amd", "none"]
Action = Literal["install", "upgrade", "downgrade", "keep", "refuse", "none"]
Origin = Literal["distribution", "vendor", "image"]
Module = Literal["open", "proprietary", "amdgpu"]
Signing = Literal["none", "mok", "distribution"]

ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}
DRIVER_KEYS = ("vendor", "branch", "module", "origin")
OPTIONAL_PARTS = ("imex", "gds", "gdrcopy")
SOFTWARE_KEYS = (
    "driver", "cuda", "rocm", "mig", "origin", "repository_keys", "container_engine", "container_toolkit",
    *OPTIONAL_PARTS,
)  # fmt: skip
FINGERPRINT_PATTERN = re.compile(r"[0-9A-F]{40}")
VERSION_HINTS = {"cuda": "a version like 12.8", "rocm": "a version like 7.2"}


@dataclass(frozen=True)
class PciDevice:
    """One PCI function, as sysfs names it: four hexadecimal digits each, without 0x."""

    address: str
    vendor: str
    device: str
    device_class: str
    subsystem: str = ""

    @property
    def pci_id(self) -> str:
        """Return vendor:device."""
        return f"{self.vendor}:{self.device}"


@dataclass(frozen=True)
class HostFacts:
    """The facts of a host (``gpufleet.fleet.hardware``). None: unknown."""

    pci: tuple[PciDevice, ...]
    os_id: str
    os_version: str
    kernel: str
    arch: str
    codename: str = ""
    os_like: tuple[str, ...] = ()
    secure_boot: bool | None = None
    headers_installed: bool = False
    packages: Mapping[str, str] = field(default_factory=dict)
    candidates: Mapping[str, tuple[str, ...]] | None = None
    loaded: Mapping[str, str | None] = field(default_factory=dict)
    held_packages: tuple[str, ...] = ()
    newest_kernel: str = ""
    container: str = ""
    virtual: str = ""
    raspberry: bool = False
    rehearsed: bool = False
    firmware: tuple[str, ...] | None = None
    date: str = ""

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> HostFacts:
        """Return facts from the module's JSON; raise InputError if it is malformed."""
        try:
            return _build_facts(raw)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise InputError(
                f"the input is not the facts of a host: {type(error).__name__} {error}", key="facts"
            ) from None


@dataclass(frozen=True)
class RequestedSoftware:
    """The software that the node's template requests. Empty or ``auto``: chosen for the cards."""

    vendor: str = "auto"
    branch: str = "auto"
    module: str = "auto"
    origin: str = "auto"
    cuda: str | None = None
    rocm: str | None = None
    mig: Any = None
    parts: frozenset[str] = frozenset()
    repository_keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any] | None) -> RequestedSoftware:
        """Return the request from the host variable ``gpufleet_software``."""
        software = _read_mapping(raw, "", SOFTWARE_KEYS)
        driver = _read_mapping(software.get("driver"), "driver", DRIVER_KEYS)
        texts = {
            "vendor": driver.get("vendor"),
            "branch": driver.get("branch"),
            "module": driver.get("module"),
            "origin": software.get("origin") or driver.get("origin"),
        }
        versions = {part: _read_version(software.get(part), part) for part in VERSION_HINTS}
        requested = cls(
            **{key: str(value) for key, value in texts.items() if value},
            mig=software.get("mig"),
            parts=frozenset(part for part in OPTIONAL_PARTS if _read_flag(software.get(part), part)),
            repository_keys=_read_repository_keys(software.get("repository_keys")),
        )
        return _check_choices(replace(requested, cuda=versions["cuda"], rocm=versions["rocm"]))


@dataclass(frozen=True)
class CardCount:
    """Cards of one kind on a host."""

    pci: str
    name: str
    architecture: str
    count: int


@dataclass(frozen=True)
class PlanReason:
    """A reason for a choice: the rule's code, its message for this host, and its source."""

    code: str
    message: str
    source: str


@dataclass(frozen=True)
class PlanRefusal:
    """The reason why nothing is done, and a remedy."""

    code: str
    message: str
    remedy: str


@dataclass(frozen=True)
class PlannedPackage:
    """A package. Without a version, the branch's pin selects it once the repository is registered."""

    name: str
    version: str | None = None


@dataclass(frozen=True)
class RepositoryKey:
    """The address of a repository's signing key, and the fingerprints that its primary key may have."""

    url: str
    fingerprints: tuple[str, ...]


@dataclass(frozen=True)
class RepositoryPin:
    """The priority of a repository's packages, in the terms of apt_preferences(5)."""

    packages: str
    release: str
    priority: int


@dataclass(frozen=True)
class PackageRepository:
    """A package repository that the plan needs in addition to the distribution's.

    ``priority`` is dnf's, where the vendor documents one; a lower number wins.
    """

    name: str
    uri: str
    suite: str
    components: tuple[str, ...]
    key: RepositoryKey
    pin: RepositoryPin | None = None
    priority: int | None = None


@dataclass(frozen=True)
class FabricManagerPlan:
    """Fabric manager at exactly the driver's version."""

    packages: tuple[PlannedPackage, ...]
    units: tuple[str, ...]


@dataclass(frozen=True)
class CudaPlan:
    """The CUDA toolkit, and the compatibility package if the driver is older than the toolkit needs."""

    version: str
    packages: tuple[PlannedPackage, ...]
    compat: tuple[PlannedPackage, ...] = ()


@dataclass(frozen=True)
class RocmPlan:
    """ROCm's user space and its processors."""

    version: str
    packages: tuple[PlannedPackage, ...]
    gfx: tuple[str, ...]


@dataclass(frozen=True)
class RebootPlan:
    """Whether the host must reboot before the plan takes effect, and why."""

    needed: bool = False
    reason: str = ""


@dataclass(frozen=True)
class DriverPlan:
    """The planned driver software of one host, with reasons."""

    vendor: Vendor
    action: Action
    system: Mapping[str, Any]
    cards: tuple[CardCount, ...] = ()
    branch: str | None = None
    version: str | None = None
    installed: str | None = None
    module: Module | None = None
    origin: Origin | None = None
    prerequisites: tuple[str, ...] = ()
    repositories: tuple[PackageRepository, ...] = ()
    streams: tuple[str, ...] = ()
    packages: tuple[PlannedPackage, ...] = ()
    remove: tuple[str, ...] = ()
    holds: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    fabric_manager: FabricManagerPlan | None = None
    gpudirect: tuple[PlannedPackage, ...] = ()
    cuda: CudaPlan | None = None
    rocm: RocmPlan | None = None
    module_signing: Signing = "none"
    blacklist: tuple[str, ...] = ()
    reboot: RebootPlan = RebootPlan()
    reasons: tuple[PlanReason, ...] = ()
    refusal: PlanRefusal | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the stable shape (``gpufleet configure --plan --json``, Ansible's ``driver_plan``)."""
        document: dict[str, Any] = _to_plain_values(asdict(self))
        return document


def _to_plain_values(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _to_plain_values(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return [_to_plain_values(inner) for inner in value]
    return value


def _build_facts(raw: Mapping[str, Any]) -> HostFacts:
    system = raw["os"]
    candidates = raw.get("candidates")
    return HostFacts(
        pci=tuple(_build_device(device) for device in raw["pci"]),
        os_id=str(system["id"]),
        os_version=str(system["version_id"]),
        codename=str(system.get("codename") or ""),
        os_like=tuple(str(system.get("like") or "").split()),
        kernel=_read_kernel_release(raw["kernel"]),
        arch=ARCHITECTURES.get(str(raw["arch"]), str(raw["arch"])),
        secure_boot=raw.get("secure_boot"),
        headers_installed=bool(raw.get("headers_installed")),
        packages={name: version or "" for name, version in _read_versions(raw.get("packages")).items()},
        candidates=None
        if candidates is None
        else {name: _read_text_list(versions) for name, versions in candidates.items()},
        loaded=_read_versions(raw.get("loaded")),
        held_packages=_read_text_list(raw.get("held") or []),
        newest_kernel=_read_kernel_release(raw.get("newest_kernel") or ""),
        container=str(raw.get("container") or ""),
        virtual=str(raw.get("virtual") or ""),
        raspberry=bool(raw.get("raspberry")),
        rehearsed=bool(raw.get("rehearsed")),
        firmware=None if raw.get("firmware") is None else _read_text_list(raw["firmware"]),
        date=str(raw.get("date") or ""),
    )


def _read_kernel_release(raw: Any) -> str:
    """Return the release of a kernel, which becomes part of package names."""
    text = str(raw)
    if not re.fullmatch(r"[\w.+~-]{0,100}", text, re.ASCII):
        raise ValueError("the release of a kernel has other characters than letters, digits and . + ~ - _")
    return text


def _read_versions(raw: Any) -> dict[str, Any]:
    """Return names with versions; a kernel's own module has none."""
    versions = dict(raw or {})
    if not all(value is None or isinstance(value, str) for value in versions.values()):
        raise TypeError("a version is not a string")
    return versions


def _read_text_list(raw: Any) -> tuple[str, ...]:
    if not isinstance(raw, list | tuple) or not all(isinstance(value, str) for value in raw):
        raise TypeError("a list contains a value that is not a string")
    return tuple(raw)


def _build_device(raw: Mapping[str, Any]) -> PciDevice:
    return PciDevice(
        address=str(raw.get("address") or ""),
        vendor=str(raw["vendor"]).lower().removeprefix("0x"),
        device=str(raw["device"]).lower().removeprefix("0x"),
        device_class=str(raw["class"]).lower().removeprefix("0x"),
        subsystem=str(raw.get("subsystem") or "").lower(),
    )


def _read_version(value: object, part: str) -> str | None:
    if value in (None, "", "none", False):
        return None
    text = str(value)
    pieces = text.split(".")
    if len(pieces) not in (2, 3) or not all(
        piece.isdecimal() and len(piece) <= MAX_NUMBER_DIGITS for piece in pieces
    ):
        raise InputError(
            f"{shorten_repr(value)} is not a version number",
            where="gpufleet_software",
            key=part,
            remedy=f"give {VERSION_HINTS[part]}",
        )
    return ".".join(pieces[:2])


def _read_flag(value: object, part: str) -> bool:
    if value not in (None, "", True, False):
        place = {"where": "gpufleet_software", "key": part, "remedy": "give true"}
        raise InputError(f"{shorten_repr(value)} is not true or false", **place)
    return value is True


def _read_mapping(raw: object, key: str, known_keys: tuple[str, ...]) -> dict[str, Any]:
    """Return a variable as a mapping; raise InputError for other types and unknown keys."""
    if raw in (None, ""):
        return {}
    if not isinstance(raw, Mapping):
        remedy = f"give a mapping with any of {', '.join(known_keys)}"
        raise InputError(f"is {shorten_repr(raw)}", where="gpufleet_software", key=key, remedy=remedy)
    unknown_key = next((key_name for key_name in raw if key_name not in known_keys), None)
    if unknown_key is not None:
        remedy = f"known keys: {', '.join(known_keys)}"
        raise InputError(
            f"unknown key {shorten_repr(unknown_key)}", where="gpufleet_software", key=key, remedy=remedy
        )
    return dict(raw)


def _read_repository_keys(raw: object) -> dict[str, tuple[str, ...]]:
    """Return the fingerprints by repository; raise InputError if one is not 40 hexadecimal digits."""
    if raw in (None, ""):
        return {}
    place = {"where": "gpufleet_software", "key": "repository_keys"}
    if not isinstance(raw, Mapping):
        raise InputError(
            f"is {shorten_repr(raw)}", **place, remedy="give a mapping of repositories to fingerprints"
        )
    keys = {}
    for name, listed in raw.items():
        fingerprints = [listed] if isinstance(listed, str) else listed
        if not isinstance(fingerprints, list | tuple):
            raise InputError(
                f"{name}: is {shorten_repr(listed)}", **place, remedy="give a fingerprint or a list"
            )
        cleaned = tuple(str(text).replace(" ", "").upper() for text in fingerprints)
        invalid = next((text for text in cleaned if not FINGERPRINT_PATTERN.fullmatch(text)), None)
        if invalid is not None or not cleaned:
            raise InputError(
                f"{name}: {shorten_repr(invalid)} is not a fingerprint",
                **place,
                remedy="give its 40 hexadecimal digits (gpg --show-keys FILE)",
            )
        keys[str(name)] = cleaned
    return keys


def _check_choices(requested: RequestedSoftware) -> RequestedSoftware:
    allowed = {
        "vendor": ("auto", "nvidia", "amd", "none"),
        "module": ("auto", "open", "proprietary"),
        "origin": ("auto", "distribution", "vendor"),
    }
    for key, choices in allowed.items():
        choice = getattr(requested, key)
        if choice not in choices:
            raise InputError(
                f"is {shorten_repr(choice)}",
                where="gpufleet_software",
                key=key,
                remedy=f"give {', '.join(choices)}",
            )
    return requested
