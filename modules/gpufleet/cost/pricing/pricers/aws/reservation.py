"""Reserved capacity of AWS: bills its whole count around the clock, whether anything runs in it or not."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from gpufleet.cost.formatting import format_number
from gpufleet.cost.inputs.values import text_if_known
from gpufleet.cost.pricing.component import ReservedCapacity
from gpufleet.cost.pricing.pricers.aws.location import pricer
from gpufleet.cost.pricing.pricers.aws.machine import (
    DEDICATED_TENANCY,
    LINUX,
    SHARED_TENANCY,
    TENANCIES,
)
from gpufleet.cost.pricing.pricers.licence import system_licence_components
from gpufleet.cost.pricing.pricers.reader import Parts, Reader
from gpufleet.cost.pricing.pricers.reservation import reserve_machines

PLATFORM, TENANCY = "instancePlatform", "tenancy"


@pricer("aws:ec2/capacityReservation:CapacityReservation")
def price_capacity_reservation(reservation: Reader) -> Parts:
    """Yield the machines of an On-Demand Capacity Reservation."""
    capacity = ReservedCapacity(
        frozenset({reservation.resource.urn}),
        accepts_open=reservation.find_text("instanceMatchCriteria") in (None, "open"),
        zone=text_if_known(reservation.find_text("availabilityZone")),
        attributes=(
            text_if_known(reservation.find_text(PLATFORM)) or LINUX,
            text_if_known(reservation.find_text(TENANCY)) or SHARED_TENANCY,
        ),
    )
    with reservation.of("machine") as machine:
        yield reserve_machines(
            machine, machine.text("instanceType", "instance type"), "instanceCount", capacity
        )
    with reservation.of("dedicated_tenancy") as tenancy:
        if tenancy.choice(TENANCY, TENANCIES, SHARED_TENANCY) == "dedicated":
            raise tenancy.refuse(DEDICATED_TENANCY)
    with reservation.of("licence") as licence:
        yield from system_licence_components(licence.text(PLATFORM, "its platform", LINUX))


@pricer("aws:ec2/capacityBlockReservation:CapacityBlockReservation")
def price_capacity_block(block: Reader) -> Parts:
    """Refuse a capacity block: it is prepaid for days, at the price of its offering."""
    block = replace(block, inputs={**block.resource.outputs, **block.resource.inputs})
    kind, count = block.find_text("instanceType"), block.find_number("instanceCount")
    machines = ""
    if isinstance(kind, str) and isinstance(count, Decimal):
        machines = f" of {format_number(count)} {kind}"
    reason = f"a capacity block{machines} is prepaid at its offering's price, which is not in the price list"
    raise block.of("machine").refuse(reason)
