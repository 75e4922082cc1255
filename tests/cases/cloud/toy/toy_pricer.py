"""Servers of Toy Cloud: each bills for its machine."""

from __future__ import annotations

from typing import Any

from gpufleet.cost.pricing.component import Components, CostComponent
from gpufleet.engine import StateResource


def price_server(resource: StateResource, graph: Any) -> Components:
    """Bill one server."""
    terms = graph.purchase_terms_of(resource)
    size, region = str(resource.inputs["size"]), str(resource.inputs["region"])
    return [
        CostComponent(
            "machine", (size,), "toy", region, terms=terms, hours_per_month=terms.billed_hours_per_month
        )
    ]


PRICERS = {"toy:compute:Server": price_server}
