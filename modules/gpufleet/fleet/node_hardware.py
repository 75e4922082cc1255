"""Hardware of our own nodes that no catalogue row of the machine states: memory, drives, interfaces, fabric."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from gpufleet.fleet.frozen_model import FrozenModel, PositiveFloat, StrictInt, build_spec_error
from gpufleet.fleet.name_range import expand_name_range

# Names of the kernel and of udev's rules: mlx5_0, mlx5_bond_0, rocep26s0f0, ibp24s0.
DEVICE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,62}")
REMEDY = "write their names like mlx5_[0-7], as ibv_devices lists them"
Count = Annotated[StrictInt, Field(ge=1, le=256)]
LinkCount = Annotated[StrictInt, Field(ge=1, le=18)]
CoreCount = Annotated[StrictInt, Field(ge=1, le=4096)]


class NodeFabric(FrozenModel):
    """The fabric of one node: RDMA ports, and their rate together in one direction.

    ``devices`` names their RDMA devices on a server that also has others, as in ``mlx5_[0-7]``.
    """

    kind: Literal["infiniband", "roce"]
    adapters: Count
    gbit_per_s: PositiveFloat | None = None
    devices: str | None = None

    @model_validator(mode="after")
    def _check_devices(self) -> NodeFabric:
        names = self.list_device_names()
        if any(not DEVICE_NAME.fullmatch(name) for name in names):
            raise build_spec_error(f"devices {self.devices!r} is not a range of RDMA devices", REMEDY)
        if len(names) > self.adapters:
            raise build_spec_error(
                f"devices names {len(names)} devices, but adapters is {self.adapters}",
                "count every port of the fabric",
            )
        return self

    def list_device_names(self) -> tuple[str, ...]:
        """Return the names of the fabric's RDMA devices; none if all ports of its kind belong to it."""
        return () if self.devices is None else expand_name_range(self.devices) or ("",)


class NodeHardware(FrozenModel):
    """What burn-in compares with the node, and ``vcpus``, the cores of a server that is not in the catalogue.

    ``drives`` counts drives of ``storage_gb``, ``interfaces`` physical ones, ``nvlinks`` the active links of each GPU.
    ``nvswitch: shared`` is a host or guest whose NVSwitches another machine's fabric manager divides.
    """

    vcpus: CoreCount | None = None
    memory_gib: PositiveFloat | None = None
    drives: Count | None = None
    interfaces: Count | None = None
    fabric: NodeFabric | None = None
    nvlinks: LinkCount | None = None
    nvswitch: Literal["shared"] | None = None

    def with_defaults_from(self, other: NodeHardware | None) -> NodeHardware:
        """Return this hardware; what it leaves out comes from the other."""
        defaults = other.model_dump(exclude_none=True) if other else {}
        return NodeHardware.model_validate(defaults | self.model_dump(exclude_none=True))

    def list_declared_values(self) -> dict[str, Any]:
        """Return what is declared, under the registry's names; cores are for ``cost tco`` alone."""
        values = self.model_dump(exclude_none=True, exclude={"vcpus"})
        if self.fabric and self.fabric.gbit_per_s:
            values["fabric"]["expected_gbit_per_s"] = values["fabric"].pop("gbit_per_s")
        if self.fabric and self.fabric.devices:
            values["fabric"]["devices"] = ",".join(self.fabric.list_device_names())
        return values
