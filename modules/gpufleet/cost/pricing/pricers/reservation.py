"""What reservations of all clouds have: a count, and terms under which it bills around the clock."""

from __future__ import annotations

from dataclasses import replace

from gpufleet.cost.money import HOURS_PER_MONTH, Range
from gpufleet.cost.pricing.component import CostComponent, ReservedCapacity
from gpufleet.cost.pricing.pricers.reader import Reader


def reserve_machines(
    machine: Reader, item: str, count_path: str, capacity: ReservedCapacity
) -> CostComponent | None:
    """Return the machines of a reservation."""
    count = Range.from_exact_value(machine.number(count_path, "reserved count"))
    part = with_reservation_terms(machine).machines(item, count)
    return part and replace(part, reserved_capacity=capacity)


def with_reservation_terms(machine: Reader) -> Reader:
    """Return the reader of reserved machines: they bill all hours of a month, under the term that the tags have."""
    purchase = machine.terms.purchase if machine.terms.is_reserved else "reserved"
    terms = replace(machine.terms, purchase=purchase, hours=HOURS_PER_MONTH)
    return replace(machine, terms=terms, hours=HOURS_PER_MONTH)
