"""Reserved capacity of AWS: bills its whole count around the clock, whether anything runs in it or not."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from gpufleet.cost.formatting import format_number
from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import Number, Text, read_input_number, read_input_text, text_if_known
from gpufleet.cost.pricing.component import Components, CostComponent, ReservedCapacity, UnpricedComponent
from gpufleet.cost.pricing.pricers.aws.launch_inputs import DEDICATED_TENANCY, LINUX, SHARED_TENANCY
from gpufleet.cost.pricing.pricers.aws.location import find_region
from gpufleet.cost.pricing.pricers.licence import system_licence_components
from gpufleet.cost.pricing.pricers.required_input import text_or_unpriced
from gpufleet.cost.pricing.pricers.reservation import reservation_terms, reserved_count_or_unpriced
from gpufleet.engine import StateResource


@dataclass(frozen=True)
class CapacityReservationInputs:
    """The inputs of an On-Demand Capacity Reservation."""

    instance_type: Text
    instance_count: Number
    zone: str | None
    platform: str
    tenancy: str
    is_open: bool


@dataclass(frozen=True)
class CapacityBlockInputs:
    """The machines of a capacity block, as far as the program or the deployed block has them."""

    instance_type: Text
    instance_count: Number


def parse_capacity_reservation_inputs(inputs: Any) -> CapacityReservationInputs:
    """Parse an On-Demand Capacity Reservation."""
    platform = text_if_known(read_input_text(inputs, "instancePlatform"))
    tenancy = text_if_known(read_input_text(inputs, "tenancy"))
    return CapacityReservationInputs(
        instance_type=read_input_text(inputs, "instanceType"),
        instance_count=read_input_number(inputs, "instanceCount"),
        zone=text_if_known(read_input_text(inputs, "availabilityZone")),
        platform=LINUX if platform is None else platform,
        tenancy=SHARED_TENANCY if tenancy is None else tenancy,
        is_open=read_input_text(inputs, "instanceMatchCriteria") in (None, "open"),
    )


def parse_capacity_block_inputs(inputs: Any) -> CapacityBlockInputs:
    """Parse a capacity block."""
    return CapacityBlockInputs(
        read_input_text(inputs, "instanceType"), read_input_number(inputs, "instanceCount")
    )


def price_capacity_reservation(resource: StateResource, graph: ResourceGraph) -> Components:
    """Return the machines of an On-Demand Capacity Reservation."""
    reservation = parse_capacity_reservation_inputs(resource.inputs)
    instance_type = text_or_unpriced(reservation.instance_type, "instance type")
    count = reserved_count_or_unpriced(reservation.instance_count)
    if isinstance(instance_type, UnpricedComponent) or isinstance(count, UnpricedComponent):
        return [each for each in (instance_type, count) if isinstance(each, UnpricedComponent)]
    capacity = ReservedCapacity(
        frozenset({resource.urn}),
        accepts_open=reservation.is_open,
        zone=reservation.zone,
        attributes=(reservation.platform, reservation.tenancy),
    )
    components: Components = [
        CostComponent(
            "machine",
            (instance_type,),
            "aws",
            find_region(resource, graph),
            count,
            terms=reservation_terms(resource, graph),
            reserved_capacity=capacity,
        )
    ]
    if reservation.tenancy == "dedicated":
        components.append(UnpricedComponent(DEDICATED_TENANCY, "dedicated_tenancy"))
    return [*components, *system_licence_components(reservation.platform)]


def price_capacity_block(resource: StateResource, graph: ResourceGraph) -> Components:  # noqa: ARG001 - every pricer's signature
    """Return a capacity block without a price: it is prepaid for days, at the price of its offering."""
    block = parse_capacity_block_inputs({**resource.outputs, **resource.inputs})
    machines = ""
    if isinstance(block.instance_type, str) and isinstance(block.instance_count, Decimal):
        machines = f" of {format_number(block.instance_count)} {block.instance_type}"
    reason = f"a capacity block{machines} is prepaid at its offering's price, which is not in the price list"
    return [UnpricedComponent(reason, "machine")]
