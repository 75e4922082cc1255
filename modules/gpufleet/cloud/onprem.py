"""Owned machines as components without a cloud, so that they are in the same state and cost report."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import pulumi

from gpufleet.fleet import StackRack
from gpufleet.fleet import Workstation as WorkstationSpec


@dataclass(frozen=True)
class RackArgs:
    """A rack of ``inventory/``; ``usd_per_hour`` is the cost of all its nodes together."""

    name: str
    machine: str
    nodes: int
    usd_per_hour: float | None
    usd_per_hour_source: str
    usd_per_hour_as_of: str | None
    template: str | None

    @classmethod
    def from_rack(cls, stack_rack: StackRack) -> RackArgs:
        rack = stack_rack.rack
        return cls(
            stack_rack.name,
            rack.machine_text,
            len(rack.nodes),
            rack.usd_per_hour,
            rack.usd_per_hour_source,
            rack.usd_per_hour_as_of,
            stack_rack.template,
        )


class RackComponent(pulumi.ComponentResource):
    """A rack; nothing is created, its facts are recorded."""

    def __init__(self, name: str, args: RackArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Record the facts as inputs (shown in a preview) and as outputs (stored in the state)."""
        super().__init__("gpufleet:onprem:Rack", name, asdict(args), opts)
        self.register_outputs(asdict(args))


@dataclass(frozen=True)
class WorkstationArgs:
    """A machine on a desk; without cost facts ``usd_per_hour`` is None and the source gives the reason."""

    name: str
    machine: str
    owner: str | None
    usd_per_hour: float | None
    usd_per_hour_source: str
    usd_per_hour_as_of: str | None
    template: str | None

    @classmethod
    def from_spec(cls, spec: WorkstationSpec) -> WorkstationArgs:
        return cls(
            spec.name,
            spec.machine,
            spec.owner,
            spec.usd_per_hour,
            spec.usd_per_hour_source,
            spec.usd_per_hour_as_of,
            spec.template,
        )


class WorkstationComponent(pulumi.ComponentResource):
    """A workstation; nothing is created, its facts are recorded."""

    def __init__(self, name: str, args: WorkstationArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Record the facts as inputs and as outputs."""
        super().__init__("gpufleet:onprem:Workstation", name, asdict(args), opts)
        self.register_outputs(asdict(args))
