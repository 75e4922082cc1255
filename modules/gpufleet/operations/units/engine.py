"""What the engine of a node can do."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from gpufleet.errors import InputError

QUADLET_SINCE = (
    4,
    4,
)  # podman's release notes, 4.4.0: quadlet was merged into podman; docs.podman.io/en/v4.4
VENDORS = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu"}


@dataclass(frozen=True)
class ContainerEngine:
    """A container engine on a node; ``cdi`` says whether it takes CDI names itself."""

    kind: Literal["podman", "docker"]
    version: tuple[int, ...]
    cdi: bool = True
    vendor: str = "none"

    @classmethod
    def from_reported_version(
        cls, kind: str, version: str, *, cdi: bool = True, vendor: str = "none"
    ) -> ContainerEngine:
        """Read an engine from what a host answered, such as ``podman`` and ``4.3.1``."""
        if kind not in ("podman", "docker"):
            raise InputError(
                f"engine {kind!r} cannot run containers", remedy="install podman or docker first"
            )
        numbers = re.match(r"\d+(\.\d+)*", version)
        if numbers is None:
            raise InputError(
                f"{version!r} is not a version of {kind}", remedy=f"install {kind} first: drivers.yml"
            )
        name: Literal["podman", "docker"] = "podman" if kind == "podman" else "docker"
        return cls(name, tuple(int(part) for part in numbers[0].split(".")), cdi, vendor)

    @property
    def has_quadlet_support(self) -> bool:
        """True if podman makes services of ``.container`` files itself."""
        return self.kind == "podman" and self.version >= QUADLET_SINCE

    @property
    def display_name(self) -> str:
        return f"{self.kind} {'.'.join(map(str, self.version))}"

    def gpu_card_options(self, card_numbers: tuple[int, ...] | None) -> list[tuple[str, str]]:
        """Return the options that show cards to a container, each as name and value; None is all of them.

        Docker without CDI takes them by its vendor's runtime (NVIDIA Container Toolkit, cdi-support; AMD Container
        Toolkit, running-workloads).
        """
        device = VENDORS.get(self.vendor)
        if device is None:
            raise InputError(
                "a container requests cards, but the node has no GPU driver",
                remedy="give the template a driver",
            )
        names = ["all"] if card_numbers is None else [str(number) for number in card_numbers]
        if self.kind == "podman" or self.cdi:
            return [("device", f"{device}={name}") for name in names]
        if self.vendor == "nvidia":
            visible = ",".join(f"{device}={name}" for name in names)
            return [("runtime", "nvidia"), ("env", f"NVIDIA_VISIBLE_DEVICES={visible}")]
        return [("runtime", "amd"), ("env", f"AMD_VISIBLE_DEVICES={','.join(names)}")]
