"""Charges as a table, one engine for every cloud: ``data/charges.csv`` has one row for each charge of a type.

``item`` is a name of the price list. ``{path|default}`` in it is a text input, of a URL its last part, and
``{path?text}`` a text that is there if the input is true. ``quantity`` is a product (``*``) of

* a fixed number,
* ``count:path|default``, the number at that input, or the length of its list,
* ``units:path``, the number at that input, one if it is zero or not set,
* ``copies:path``, two if that input is true, else one,

or ``use:key`` and ``stored:key``, an amount of the usage file that is used up, or kept during the month. ``at_most`` is
the path of the upper bound where the cloud adds units by itself. ``only`` is ``path|default=words`` for a charge of
these tiers alone, ``path|default!=words`` for one that these do not have. ``scope`` is ``global`` for what has one
price everywhere. ``listed`` is ``no`` for a charge by use that only appears with an amount.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, partial
from types import MappingProxyType

from gpufleet.boundary import CsvRow, read_packaged_rows
from gpufleet.cost.inputs.graph import strip_api_version
from gpufleet.cost.money import ONE, Range
from gpufleet.cost.pricing.pricers.extensions import Pricer
from gpufleet.cost.pricing.pricers.reader import GLOBAL, Parts, PricerRegistry, Reader
from gpufleet.errors import InputError

_PLACEHOLDER = re.compile(r"\{([\w.]+)(?:\|([\w.-]+)|\?([\w:]+))?\}")
_FACTOR = re.compile(r"(?:(count|units|copies|use|stored):)?([\w.]+)(?:\|([\w.]+))?")
_CONDITION = re.compile(r"([\w.]+)(?:\|([\w.]+))?(!?)=(.+)")
USE_KINDS = ("use", "stored")


@dataclass(frozen=True)
class Charge:
    """One row of the table."""

    component: str
    item: str
    factors: tuple[tuple[str, str, str], ...]  # kind (empty: fixed), path or number, default
    at_most: str
    only: tuple[str, str, str, str] | None  # path, default, ! if excluded, words
    is_global: bool
    is_listed: bool

    @property
    def is_by_use(self) -> bool:
        """True if the usage file has the amount."""
        return self.factors[0][0] in USE_KINDS

    @property
    def key(self) -> str:
        """The key of the usage file, or the first path."""
        return self.factors[0][1]

    @property
    def input_paths(self) -> tuple[str, ...]:
        """The paths of the inputs that the charge depends on."""
        counted = (path for kind, path, _ in self.factors if kind and kind not in USE_KINDS)
        conditional = (self.only[0],) if self.only else ()
        named = (path for path, _, _ in _PLACEHOLDER.findall(self.item))
        return tuple(filter(None, (*named, *counted, self.at_most, *conditional)))


@cache
def load_charges(prefix: str = "") -> dict[str, tuple[Charge, ...]]:
    """Return the charges of each type whose token starts with a cloud's prefix."""
    rows = read_packaged_rows("gpufleet.cost", "data/charges.csv")
    return parse_charges(row for row in rows if row["type"].startswith(prefix))


def parse_charges(rows: Iterable[CsvRow]) -> dict[str, tuple[Charge, ...]]:
    """Return the charges of each type; a cell that the table's language does not have is an InputError."""
    charges: dict[str, tuple[Charge, ...]] = {}
    for row in rows:
        charges[row["type"]] = (*charges.get(row["type"], ()), _parse_charge(row))
    return charges


def make_table_pricers(
    charges: Mapping[str, tuple[Charge, ...]],
    registry: PricerRegistry,
    other_names: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Pricer]:
    """Return the pricer of each type with charges, also of types that bill as another one does."""

    @registry()
    def price_charges(reader: Reader) -> Parts:
        type_token = strip_api_version(reader.resource.type)
        return _list_charges(reader, charges[other_names.get(type_token, type_token)])

    return dict.fromkeys(
        (*charges, *(other for other, name in other_names.items() if name in charges)), price_charges
    )


def _parse_charge(row: CsvRow) -> Charge:
    condition = _CONDITION.fullmatch(row["only"])
    path, default, negation, words = condition.groups("") if condition else ("", "", "", "")
    if row["only"] and not condition:
        raise InputError(
            f"{row['only']!r} is not a condition", where=row.where, key="only", remedy="write path=words"
        )
    return Charge(
        row["component"],
        row["item"],
        _parse_quantity(row),
        row["at_most"],
        (path, default, negation, words) if condition else None,
        row.get_choice("scope", ("", GLOBAL)) == GLOBAL,
        row.get_choice("listed", ("yes", "no")) == "yes",
    )


def _parse_quantity(row: CsvRow) -> tuple[tuple[str, str, str], ...]:
    factors = [_FACTOR.fullmatch(each) for each in row["quantity"].split("*")]
    found = tuple((each[1] or "", each[2], each[3] or "") for each in factors if each)
    is_number = all(kind or re.fullmatch(r"\d+(\.\d+)?", number) for kind, number, _ in found)
    is_product = len(found) == 1 or not any(kind in USE_KINDS for kind, *_ in found)
    if len(found) < len(factors) or not is_number or not is_product:
        raise InputError(
            f"{row['quantity']!r} is not a quantity",
            where=row.where,
            key="quantity",
            remedy="write a product (*) of a number, count:PATH, units:PATH and copies:PATH, or use:KEY, or stored:KEY",
        )
    return found


def _list_charges(reader: Reader, charges: tuple[Charge, ...]) -> Parts:
    """Yield the charges of a resource."""
    for charge in charges:
        with (reader.within(GLOBAL) if charge.is_global else reader).of(charge.component) as part:
            if charge.only and not _is_charged(part, *charge.only):
                continue
            if charge.is_by_use and not charge.is_listed and charge.key not in part.usage.amounts:
                continue
            item = _PLACEHOLDER.sub(partial(_fill, part), charge.item)
            if charge.is_by_use:
                yield part.used(item, charge.key, stored=charge.factors[0][0] == "stored")
                continue
            count = ONE
            for factor in charge.factors:
                count *= _read_factor(part, *factor)
            yield part.part(item, part.up_to(count, charge.at_most) if charge.at_most else count)


def _is_charged(reader: Reader, path: str, default: str, negation: str, words: str) -> bool:
    is_one = reader.text(path, default=default).lower() in words.split()
    return is_one != bool(negation)


def _read_factor(reader: Reader, kind: str, path: str, default: str) -> Range | Decimal:
    if kind == "copies":
        return reader.copies(path)
    if kind == "units":
        return reader.number(path, default=1) or Decimal(1)
    return reader.count(path, default=Decimal(default) if default else None) if kind else Decimal(path)


def _fill(reader: Reader, match: re.Match[str]) -> str:
    path, default, text_if_true = match.groups()
    if text_if_true:
        return text_if_true if reader.flag(path) else ""
    return reader.text(path, default=default).lower().rsplit("/", 1)[-1]
