"""Node templates: what a node of any origin becomes once it is configured."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from gpufleet.fleet.base import Frozen, Name, Whole, matching, refusal

Port = Annotated[Whole, Field(ge=1, le=65535)]
_branch, _branch_schema = matching(r"auto|\d{3}|\d+\.\d+", "auto, or a quoted branch like '570' or '6.4'")
Profile = Literal["quick", "standard", "soak"]


class Driver(Frozen):
    """Which GPU driver a node gets."""

    vendor: Literal["nvidia", "amd", "none"] = "none"
    branch: Annotated[str, _branch, _branch_schema] = "auto"


def _gpus(value: object) -> object:
    if value in ("all", "none") or (type(value) is int and value >= 1):
        return value
    raise refusal(f"is {value!r}", "give all, none or how many")


class Volume(Frozen):
    """Space that the node's work needs beside its boot disk."""

    name: Name
    size_gib: Annotated[Whole, Field(ge=1, le=65536)]
    kind: Literal["nvme", "ssd"] = "ssd"


class Container(Frozen):
    """One container that the node runs."""

    image: Annotated[str, Field(min_length=1)]
    name: Name | None = None
    gpus: Annotated[Literal["all", "none"] | int, BeforeValidator(_gpus)] = "none"
    ports: tuple[Port, ...] = ()


class Template(Frozen):
    """A reusable blueprint: driver, container toolkit, volumes, containers, burn-in."""

    driver: Driver = Driver()
    container_toolkit: bool = False
    volumes: tuple[Volume, ...] = ()
    containers: tuple[Container, ...] = ()
    burn_in: Profile = "quick"

    @property
    def kept_only(self) -> bool:
        """Tell whether it asks for something that is read and kept, and that nothing acts on yet."""
        asks = (self.container_toolkit, self.volumes, self.containers, self.burn_in != "quick")
        return self.driver.vendor != "none" or any(asks)
