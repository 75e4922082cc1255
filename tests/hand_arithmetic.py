"""Arithmetic that somebody wrote by hand next to a record, calculated again."""

from __future__ import annotations

import re
from decimal import Decimal


def evaluate_arithmetic(text: str) -> Decimal:
    """Return what a line of arithmetic says, after checking its sum: ``1.5 USD x 2 machines + 3 = 6``."""
    sum_, _, result = text.rpartition("=")
    terms = [re.split(r"\sx\s", term) for term in sum_.split(" + ")]
    total = Decimal(0)
    for term in terms:
        product = Decimal(1)
        for factor in term:
            number = re.match(r"\s*([\d.]+)", factor)
            assert number, f"{text!r}: {factor!r} has no number"
            product *= Decimal(number[1])
        total += product
    assert total == Decimal(result.strip()), f"{text}: it is {total}"
    return total
