"""Hardware of our own nodes that no catalogue row of the machine states: memory, drives, interfaces, fabric."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from gpufleet.fleet.frozen_model import FrozenModel, PositiveFloat, StrictInt

Count = Annotated[StrictInt, Field(ge=1, le=256)]
CoreCount = Annotated[StrictInt, Field(ge=1, le=4096)]


class NodeFabric(FrozenModel):
    """The fabric of one node: RDMA ports, and their rate together in one direction."""

    kind: Literal["infiniband", "roce"]
    adapters: Count
    gbit_per_s: PositiveFloat | None = None


class NodeHardware(FrozenModel):
    """What burn-in compares with the node, and ``vcpus``, the cores of a server that is not in the catalogue.

    ``drives`` counts drives of ``storage_gb``, ``interfaces`` physical ones.
    """

    vcpus: CoreCount | None = None
    memory_gib: PositiveFloat | None = None
    drives: Count | None = None
    interfaces: Count | None = None
    fabric: NodeFabric | None = None

    def with_defaults_from(self, other: NodeHardware | None) -> NodeHardware:
        """Return this hardware; what it leaves out comes from the other."""
        defaults = other.model_dump(exclude_none=True) if other else {}
        return NodeHardware.model_validate(defaults | self.model_dump(exclude_none=True))

    def list_declared_values(self) -> dict[str, Any]:
        """Return what is declared, under the registry's names; cores are for ``cost tco`` alone."""
        values = self.model_dump(exclude_none=True, exclude={"vcpus"})
        if self.fabric and self.fabric.gbit_per_s:
            values["fabric"]["expected_gbit_per_s"] = values["fabric"].pop("gbit_per_s")
        return values
