"""Racks and workstations that a fleet owns: the component carries its hourly cost, and the source of that figure."""

from __future__ import annotations

from dataclasses import replace

from gpufleet.catalog import Price
from gpufleet.cost.inputs.terms import PurchaseTerms
from gpufleet.cost.inputs.values import text_if_known
from gpufleet.cost.pricing.component import CostComponent
from gpufleet.cost.pricing.pricers.reader import Parts, PricerRegistry, Reader

ONPREM = "onprem"
pricer = PricerRegistry(ONPREM, lambda resource, graph: ONPREM)  # noqa: ARG005 - every cloud's signature


@pricer("gpufleet:onprem:Rack", "gpufleet:onprem:Workstation")
def price_owned_machine(machine: Reader) -> Parts:
    """Yield a rack or workstation at its declared hourly cost."""
    name = machine.resource.name
    inputs = {**machine.resource.outputs, **machine.resource.inputs}
    with replace(machine, inputs=inputs).of("machine") as owned:
        if not owned.has("usd_per_hour"):
            raise owned.refuse("hourly cost is not declared")
        usd_per_hour = float(owned.number("usd_per_hour", "hourly cost"))
        as_of = text_if_known(owned.find_text("usd_per_hour_as_of"))
        source = text_if_known(owned.find_text("usd_per_hour_source"))
        source = "declared in the fleet" if source is None else source
        yield CostComponent(
            owned.component,
            (text_if_known(owned.find_text("machine")) or name,),
            ONPREM,
            ONPREM,
            terms=PurchaseTerms(pool=name),
            owned_nodes=int(owned.number("nodes", "number of nodes")) if owned.has("nodes") else 0,
            declared_price=Price(usd_per_hour, "rack", as_of, source, "medium", ONPREM, "owned"),
        )
