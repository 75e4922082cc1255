"""Price one Azure resource with the packaged list prices."""

from __future__ import annotations

from decimal import Decimal

from gpufleet.cost import price_resources
from gpufleet.engine import StateResource


def make(type_, inputs, name="it"):
    return StateResource(f"urn:pulumi:prod::p::{type_}::{name}", type_, name, inputs, {})


def monthly_usd(type_, inputs, book=None, others=(), **options):
    """Return the month's expected total, rounded to cents, and the reasons of what has no price."""
    bill = price_resources([make(type_, inputs), *others], book, **options)
    charges = [each for each in bill.charges if each.urn.endswith("::it")]
    total = sum((each.usd_per_hour.expected * each.hours_per_month for each in charges), Decimal(0))
    return round(total, 2), [each.reason for each in bill.unpriced_resources]
