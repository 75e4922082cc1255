"""Racks and workstations that a fleet owns: the component carries its hourly cost, and the source of that figure."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpufleet.catalog import Price
from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.terms import PurchaseTerms
from gpufleet.cost.inputs.values import (
    MARKER_REASONS,
    Number,
    read_input_number,
    read_reference,
    text_if_known,
)
from gpufleet.cost.pricing.component import Components, CostComponent, UnpricedComponent
from gpufleet.engine import StateResource, UnreadableValue


@dataclass(frozen=True)
class OwnedMachineInputs:
    """The declared cost of a rack or workstation."""

    usd_per_hour: Number
    source: str
    as_of: str | None
    machine: str | None


def parse_owned_machine_inputs(inputs: Any) -> OwnedMachineInputs:
    """Parse a rack or workstation."""
    source = text_if_known(read_reference(inputs, "usd_per_hour_source"))
    return OwnedMachineInputs(
        usd_per_hour=read_input_number(inputs, "usd_per_hour"),
        source="declared in the fleet" if source is None else source,
        as_of=text_if_known(read_reference(inputs, "usd_per_hour_as_of")),
        machine=text_if_known(read_reference(inputs, "machine")),
    )


def price_owned_machine(resource: StateResource, graph: ResourceGraph) -> Components:  # noqa: ARG001 - every pricer's signature
    """Return a rack or workstation at its declared hourly cost."""
    owned = parse_owned_machine_inputs(dict(resource.outputs) | dict(resource.inputs))
    rate = owned.usd_per_hour
    if not isinstance(rate, Decimal):
        reason = MARKER_REASONS[rate] if isinstance(rate, UnreadableValue) else "not declared"
        return [UnpricedComponent(f"hourly cost is {reason}", "machine")]
    price = Price(float(rate), "rack", owned.as_of, owned.source, "medium", "onprem", "owned")
    return [
        CostComponent(
            "machine",
            (resource.name if owned.machine is None else owned.machine,),
            "onprem",
            "onprem",
            terms=PurchaseTerms(pool=resource.name),
            declared_price=price,
        )
    ]
