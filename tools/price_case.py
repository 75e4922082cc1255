"""The cases of priced types as data: a resource, its amounts, and the bill that somebody confirmed by hand.

``tests/cases/cost/pricers/charges.json`` is a list of cases. ``usage`` are amounts of the usage file, ``components``
what each component bills of which item, ``usd`` the price of one ``per`` hour, month or use. ``confirmed_by`` is the
arithmetic from the provider's published price to ``usd_per_month``; a test calculates it again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from gpufleet.catalog.data_file import list_parts_billed_by_month
from gpufleet.cost import price_resources
from gpufleet.cost.inputs.usage.model import ResourceUsage, UsageFile, UsageFileEntry
from gpufleet.cost.money import HOURS_PER_MONTH, to_decimal
from gpufleet.cost.pricing.bill import Bill, Charge
from gpufleet.engine import StateResource

Record = dict[str, Any]


def make_resource(type_token: str, inputs: Mapping[str, Any]) -> StateResource:
    """Return the resource of a case."""
    return StateResource(f"urn:pulumi:s::p::{type_token}::a", type_token, "a", dict(inputs), {})


def make_usage(amounts: Mapping[str, Any]) -> UsageFile:
    """Return a usage file with these amounts."""
    usage = ResourceUsage(amounts={key: Decimal(str(amount)) for key, amount in amounts.items()})
    return UsageFile(resources=(UsageFileEntry("a", usage, 1),))


def price_case(case: Mapping[str, Any]) -> Bill:
    """Price the resource of a case by the price list."""
    return price_resources([make_resource(case["type"], case["inputs"])], usage=make_usage(case["usage"]))


def describe_bill(bill: Bill) -> Record:
    """Return the components and the total of a bill as a case has them."""
    components = {name: row for charge in bill.charges for name, row in _describe_charge(charge).items()}
    return {"components": components, "usd_per_month": _format_number(bill.usd_per_month.expected, 4)}


def format_cases(cases: Iterable[Record]) -> str:
    """Return the file of cases, a few lines for each."""
    return "[\n" + ",\n".join(map(_format_case, cases)) + "\n]\n"


def format_examples(examples: Mapping[str, list[Record]]) -> str:
    """Return the file of example programs, a line for each resource."""
    programs = [
        f" {json.dumps(type_token)}: [\n"
        + ",\n".join(f"  {json.dumps(record, ensure_ascii=False)}" for record in program)
        + "]"
        for type_token, program in sorted(examples.items())
    ]
    return "{\n" + ",\n".join(programs) + "\n}\n"


def _describe_charge(charge: Charge) -> dict[str, Record]:
    """Return a row of each volume tier that a charge reaches."""
    use = charge.monthly_use
    if use:
        per = "month" if use.is_stored else "use"
        return {
            f"{charge.component} above {share.from_amount}" if share.from_amount else charge.component: (
                _make_row(charge, share.amount, share.usd_per_unit, per)
            )
            for share in use.shares
        }
    usd = to_decimal(charge.price.usd_per_hour) if charge.price else Decimal(0)
    by_month = charge.item in list_parts_billed_by_month()
    price = usd * HOURS_PER_MONTH if by_month else usd
    return {
        charge.component: _make_row(charge, charge.quantity.expected, price, "month" if by_month else "hour")
    }


def _make_row(charge: Charge, quantity: Decimal, usd: Decimal, per: str) -> Record:
    return {
        "item": charge.item,
        "quantity": _format_number(quantity, 6),
        "usd": _format_number(usd, 12),
        "per": per,
    }


def _format_number(number: Decimal, places: int) -> str:
    return f"{round(number, places).normalize():f}"


def _format_case(case: Record) -> str:
    head = ", ".join(f'"{key}": {json.dumps(case[key])}' for key in ("type", "inputs", "usage"))
    components = ",\n   ".join(
        f"{json.dumps(name)}: {json.dumps(row)}" for name, row in case["components"].items()
    )
    tail = ", ".join(f'"{key}": {json.dumps(case[key])}' for key in ("usd_per_month", "confirmed_by"))
    return f' {{{head},\n  "components": {{\n   {components}}},\n  {tail}}}'
