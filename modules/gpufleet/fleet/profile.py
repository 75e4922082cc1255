"""Two of a template's four steps: what hardware it is for, and the software between that and its application."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    WithJsonSchema,
    model_validator,
)

from gpufleet import catalog
from gpufleet.errors import InputError
from gpufleet.fleet.frozen_model import FrozenModel, StrictInt, build_pattern_annotations, build_spec_error

_branch, _branch_schema = build_pattern_annotations(
    r"auto|\d{3}|\d+\.\d+", "auto, or a quoted branch like '570' or '6.4'"
)
_release, _release_schema = build_pattern_annotations(
    r"\d{1,2}\.\d{1,2}(\.\d{1,2})?", "a quoted release like '12.8'"
)
_path, _path_schema = build_pattern_annotations(
    r"/[A-Za-z0-9._/-]*[A-Za-z0-9._-]", "an absolute path of letters, digits, dots, hyphens, underscores"
)
_slice, _slice_schema = build_pattern_annotations(r"\d+g\.\d+gb(\+me)?", "a MIG profile like 1g.10gb")
Release = Annotated[str, _release, _release_schema]
Engine = Literal["auto", "podman", "docker", "none"]
IPV6_SMALLEST_MTU = 1280  # RFC 8200, section 5
LARGEST_MTU = 65520  # IP over InfiniBand, connected mode (the kernel's Documentation/infiniband/ipoib)


def _check_path_parts(value: str) -> str:
    if any(part in {"", ".", ".."} for part in value.split("/")[1:]):
        raise build_spec_error(f"is {value!r}", "give a path without //, . and ..")
    return value


HostPath = Annotated[str, _path, AfterValidator(_check_path_parts), _path_schema]


def _check_machine(name: str) -> str:
    for cloud in ("onprem", *catalog.CLOUDS):
        try:
            return catalog.get_machine(name, cloud).name
        except InputError:
            continue
    raise build_spec_error(f"{name!r} is not a known machine", "give a machine of the catalogue")


def _check_accelerator(name: str) -> str:
    try:
        return catalog.get_accelerator(name).name
    except InputError as error:
        raise build_spec_error(error.problem, error.remedy) from error


class AcceleratorRequirement(FrozenModel):
    """Which accelerators a node must have, at least."""

    vendor: Literal["nvidia", "amd"] | None = None
    model: Annotated[str, AfterValidator(_check_accelerator)] | None = None
    count: Annotated[StrictInt, Field(ge=1, le=16)] = 1


class LocalDriveLayout(FrozenModel):
    """What becomes of a node's local drives: one file system on one of them, or on all as RAID0."""

    layout: Literal["none", "single", "raid0"] = "none"
    mount: HostPath = "/scratch"
    filesystem: Literal["ext4", "xfs"] = "ext4"


class HugePages(FrozenModel):
    """Memory set aside in large pages at boot."""

    size: Literal["2M", "1G"] = "2M"
    count: Annotated[StrictInt, Field(ge=1, le=1048576)]


class HardwareProfile(FrozenModel):
    """Step one: what the node must be, and how its drives, memory and network are laid out."""

    machines: Annotated[
        tuple[Annotated[str, AfterValidator(_check_machine)], ...],
        Field(description="the machines that the profile is for; any machine if omitted"),
    ] = ()
    accelerators: AcceleratorRequirement | None = None
    storage: LocalDriveLayout = LocalDriveLayout()
    hugepages: HugePages | None = None
    mtu: Annotated[StrictInt, Field(ge=IPV6_SMALLEST_MTU, le=LARGEST_MTU)] | None = None


class GpuDriverSettings(FrozenModel):
    """Which GPU driver a node gets."""

    vendor: Annotated[
        Literal["auto", "nvidia", "amd", "none"],
        Field(description="auto: that of the node's cards; none: no driver is installed"),
    ] = "auto"
    branch: Annotated[str, _branch, _branch_schema] = "auto"
    module: Annotated[
        Literal["auto", "open", "proprietary"],
        Field(description="NVIDIA's kernel module; auto: what the card needs"),
    ] = "auto"

    @model_validator(mode="after")
    def _check_vendor(self) -> Self:
        """Refuse settings of a driver that is not installed."""
        for key in ("branch", "module"):
            if self.vendor == "none" and getattr(self, key) != "auto":
                raise build_spec_error(
                    f"{key} is set, but vendor is none, so no driver is installed",
                    f"remove {key}, or set vendor: nvidia or amd",
                )
        return self


MigProfile = Annotated[str, _slice, _slice_schema]
Instances = Annotated[StrictInt, Field(ge=1, le=7)]


class MigCardProfiles(FrozenModel):
    """How some NVIDIA cards are cut: one profile as often as it fits, or how many of each."""

    devices: Literal["all"] | tuple[Annotated[StrictInt, Field(ge=0, le=15)], ...] = "all"
    profiles: Annotated[
        Annotated[MigProfile, Tag("name")]
        | Annotated[dict[MigProfile, Instances], Field(min_length=1), Tag("inline")],
        Discriminator(lambda value: "name" if isinstance(value, str) else "inline"),
    ]


def _expand_short_mig(value: object) -> object:
    """Accept a profile, or a mapping of profiles to counts, for all cards."""
    if isinstance(value, str) or (isinstance(value, dict) and "profiles" not in value):
        return [{"profiles": value}]
    return [value] if isinstance(value, dict) else value


MIG_SCHEMA = {
    "description": "a MIG profile, a mapping of profiles to how many, or a list of devices with their profiles",
    "type": ["string", "object", "array"],
}
Mig = Annotated[tuple[MigCardProfiles, ...], BeforeValidator(_expand_short_mig), WithJsonSchema(MIG_SCHEMA)]


class SoftwareProfile(FrozenModel):
    """Step two: driver, CUDA or ROCm, container engine and toolkit."""

    driver: GpuDriverSettings = GpuDriverSettings()
    cuda: Release | None = None
    rocm: Release | None = None
    container_engine: Annotated[
        Engine,
        Field(
            description="auto: docker for compose files, podman for quadlets or only the toolkit, else none"
        ),
    ] = "auto"
    container_toolkit: bool = False
    mig: Mig | None = None
    imex: Annotated[
        bool, Field(description="memory sharing between the nodes of an NVLink rack (GB200 NVL72)")
    ] = False
    gds: Annotated[bool, Field(description="GPUDirect Storage, with its kernel module")] = False
    gdrcopy: Annotated[bool, Field(description="gdrcopy, from a repository that has its packages")] = False
    origin: Annotated[
        Literal["auto", "distribution", "vendor"],
        Field(
            description="origin of the packages: the distribution, the vendor, or the driver plan's choice"
        ),
    ] = "auto"

    @property
    def driver_vendor(self) -> Literal["auto", "nvidia", "amd", "none"]:
        """Return the vendor of the driver; if it is not set, that of the software that needs one."""
        if self.driver.vendor != "auto":
            return self.driver.vendor
        for _, vendor in self._list_vendor_software():
            return vendor
        return "auto"

    def _list_vendor_software(self) -> Iterator[tuple[str, Literal["nvidia", "amd"]]]:
        """Yield the settings that only one vendor's driver supports, with that vendor."""
        for key in ("cuda", "mig", "imex", "gds", "gdrcopy"):
            if getattr(self, key):
                yield key, "nvidia"
        if self.driver.module != "auto":
            yield "driver.module", "nvidia"
        if self.rocm:
            yield "rocm", "amd"

    @model_validator(mode="after")
    def _check_vendors_agree(self) -> Self:
        """Refuse settings that need another vendor's driver."""
        software = list(self._list_vendor_software())
        for key, vendor in software:
            if vendor == self.driver_vendor:
                continue
            if self.driver.vendor == "auto":
                raise build_spec_error(
                    f"{key} needs {vendor}'s driver, and {software[0][0]} needs {self.driver_vendor}'s",
                    f"remove {key} or {software[0][0]}",
                )
            if key == "driver.module":
                raise build_spec_error(
                    f"driver.module is {self.driver.module!r}, but the driver's vendor is {self.driver.vendor}",
                    "remove driver.module: only NVIDIA's driver has a choice of kernel modules",
                )
            raise build_spec_error(
                f"{key} needs driver.vendor {vendor}, not {self.driver.vendor}",
                f"set driver: {{vendor: {vendor}}}, or remove {key}",
            )
        return self
