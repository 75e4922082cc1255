"""Add a charge of a resource type: ``python -m tools.new_price TYPE --component NAME --item ITEM``.

It writes the row of ``charges.csv``, the key of the usage file, the example program, the case and the line of
docs/resource-types.md, and takes the type out of ``free_types.csv``. It writes nothing if one of them would be wrong.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import patch

from gpufleet.boundary import (
    LARGE_DOCUMENT,
    CsvRow,
    decode_csv,
    decode_json,
    decode_json_object,
    read_text,
    write_text,
)
from gpufleet.catalog import find_cloud_part_price
from gpufleet.catalog.prices.refresh_report import list_embedded_parts
from gpufleet.catalog.prices.similar_name import ask_about_names, find_similar_names
from gpufleet.cost.analysis.reports.focus import OTHER_SERVICE, find_focus_service
from gpufleet.cost.inputs.graph import ResourceGraph
from gpufleet.cost.inputs.values import read_input
from gpufleet.cost.pricing.component import CostComponent, UnpricedComponent, UsageComponent
from gpufleet.cost.pricing.pricers import PRICERS
from gpufleet.cost.pricing.pricers.charge_table import Charge, make_table_pricers, parse_charges
from gpufleet.cost.pricing.pricers.extensions import Pricer
from gpufleet.cost.pricing.pricers.reader import GLOBAL
from gpufleet.errors import GpufleetError, InputError
from tools import type_page
from tools.price_case import (
    Record,
    describe_bill,
    format_cases,
    format_examples,
    make_resource,
    make_usage,
    price_case,
)
from tools.provider_schema.sdk_schema import SDKS, build_type_schema, list_resource_modules

ROOT = Path(__file__).parents[1]
DATA = Path("modules/gpufleet/cost/data")
CHARGES, KEYS, FREE = DATA / "charges.csv", DATA / "usage_keys.csv", DATA / "free_types.csv"
CASES = Path("tests/cases/cost/pricers/charges.json")
EXAMPLES = Path("tests/cases/cost/pricers/examples.json")
PAGE = Path("docs/resource-types.md")
CLOUDS = {"aws": "aws", "aws-native": "aws", "gcp": "gcp", "azure": "azure", "azure-native": "azure"}
# Where an example is, unless its file says: the first of these inputs that the type has.
PLACES = {
    "aws": {"region": "us-east-1"},
    "gcp": {"region": "us-central1", "location": "us-central1", "zone": "us-central1-a"},
    "azure": {"location": "eastus"},
}
AMOUNT = 1000  # of each key of the usage file, unless the example says
COLUMNS = ("type", "component", "item", "quantity", "at_most", "only", "scope", "listed")


@dataclass(frozen=True)
class NewCharge:
    """The cells of the new row, and of the row of its key in the usage file."""

    type: str
    component: str
    item: str
    quantity: str = "1"
    at_most: str = ""
    only: str = ""
    listed: str = "yes"
    unit: str = ""
    meaning: str = ""

    @property
    def package(self) -> str:
        """The Pulumi package of the type."""
        return self.type.split(":")[0]

    @property
    def cloud(self) -> str:
        """The cloud of the type."""
        return CLOUDS[self.package]


def plan_files(new: NewCharge, example: Mapping[str, Any], root: Path = ROOT) -> dict[Path, str]:
    """Return the text of each file that changes; ``example`` has ``inputs`` and ``usage``, which the charge needs.

    InputError: an unknown type, item, input or column, an item without a price, or a component that is there already.
    """
    texts = {path: read_text(root / path, limits=LARGE_DOCUMENT) for path in (CHARGES, KEYS, FREE)}
    rows = decode_csv(texts[CHARGES], CHARGES.name, limits=LARGE_DOCUMENT)
    _check_type(new, rows)
    examples = _read_json(root / EXAMPLES)
    cases: list[Record] = _read_json(root / CASES)
    given_inputs, given_usage = example.get("inputs", {}), example.get("usage", {})
    program = examples.get(new.type, [_make_record(new)])
    inputs = program[0]["inputs"] | given_inputs
    _check_inputs(new, inputs)
    texts[CHARGES], charges = _add_row(texts[CHARGES], new, inputs)
    amounts = {each.key: AMOUNT for each in charges if each.is_by_use}
    _check_amounts(given_usage, amounts)
    texts[KEYS] = _add_key(texts[KEYS], new, charges[-1])
    texts[FREE] = _remove_free_type(texts[FREE], new.type)
    examples[new.type] = [program[0] | {"inputs": inputs}, *program[1:]]
    texts[EXAMPLES] = format_examples(examples)
    own = [each for each in cases if each["type"] == new.type] or [{"inputs": inputs, "usage": {}}]
    others = [each for each in cases if each["type"] != new.type]
    priced = [
        _make_case(new, charges, each["inputs"] | given_inputs, amounts | each["usage"] | given_usage)
        for each in own
    ]
    texts[CASES] = format_cases(sorted([*others, *priced], key=lambda case: str(case["type"])))
    free = [row["type"] for row in decode_csv(texts[FREE], FREE.name, limits=LARGE_DOCUMENT)]
    texts[PAGE] = type_page.format_page({*PRICERS, *(row["type"] for row in rows), new.type}, free)
    return texts


def _check_type(new: NewCharge, rows: Sequence[CsvRow]) -> None:
    """Raise InputError unless the type exists and the table may have the component."""
    if not re.fullmatch(r"[a-z][a-z0-9_:]*", new.component):
        raise InputError(
            f"{new.component!r} is not a name", where="--component", remedy="use a-z, 0-9, _ and :"
        )
    if new.package not in CLOUDS:
        raise InputError(
            f"{new.package!r} is not a package with a table of charges", where="TYPE", remedy=_list(CLOUDS)
        )
    if not re.fullmatch(r"[a-z-]+:[\w/.-]+:\w+", new.type):
        raise InputError(f"{new.type!r} is not a token", where="TYPE", remedy="write PACKAGE:MODULE:NAME")
    if new.package in SDKS and new.type not in (known := list_resource_modules(new.package)):
        question = ask_about_names(find_similar_names(new.type, known))
        raise InputError(f"{SDKS[new.package]} has no type {new.type}", where="TYPE", remedy=question)
    components = {row["component"] for row in rows if row["type"] == new.type}
    if new.type in PRICERS and not components:
        raise InputError(f"{new.type} has a pricer in Python", where="TYPE", remedy="add the component there")
    if new.component in components:
        raise InputError(
            f"{new.type} has {new.component} already",
            where="--component",
            remedy=f"edit its row in {CHARGES}",
        )


def _make_record(new: NewCharge) -> Record:
    """Return the record of a resource in the default place; without an input for it, its provider has the region."""
    places = PLACES[new.cloud]
    known = build_type_schema(new.package, new.type).types[new.type] if new.package in SDKS else places
    place = next((key for key in places if key in known), next(iter(places)))
    return {"urn": make_resource(new.type, {}).urn, "inputs": {place: places[place]}, "custom": True}


def _check_inputs(new: NewCharge, inputs: Mapping[str, Any]) -> None:
    """Raise InputError if the provider has no such input, or it has another type."""
    if new.package not in SDKS:
        return
    problems = build_type_schema(new.package, new.type).find_problems(new.type, inputs)
    for path, reason in problems:
        # What the bill does not depend on may be left out, and the provider may have the region.
        if not reason.startswith("missing required") and path not in PLACES[new.cloud]:
            raise InputError(reason, where="--example", key=path)


def _check_amounts(usage: Mapping[str, Any], known: Mapping[str, int]) -> None:
    """Raise InputError for an amount of an example that is not a number, or that no charge of the type reads."""
    for key, amount in usage.items():
        if key not in known:
            raise InputError(
                "no charge of the type reads it", where="--example", key=key, remedy=_list(known)
            )
        if isinstance(amount, bool) or not isinstance(amount, (int, float)) or amount < 0:
            raise InputError(f"{amount!r} is not an amount", where="--example", key=key)


def _add_row(text: str, new: NewCharge, inputs: Mapping[str, Any]) -> tuple[str, tuple[Charge, ...]]:
    """Return the table with the row, and the charges of its type; the scope is where the item has its price."""
    table, charges = _insert_charge(text, new, "")
    charge = charges[-1]
    for path in charge.input_paths:
        steps = [int(step) if step.isdigit() else step for step in path.split(".")]
        if read_input(inputs, *steps) is None:
            raise InputError(f"has no {path}, which the charge depends on", where="--example")
    component = _find_component(new, charges, inputs)
    item = component.item if isinstance(component, UsageComponent) else component.items[0]
    known = list_embedded_parts(new.cloud)
    if item not in known:
        remedy = (
            ask_about_names(find_similar_names(item, known, cutoff=0.6))
            or f"add it to tools/price_lists/service_parts_{new.cloud}.csv: docs/architecture.md, Adding a priced type"
        )
        raise InputError(f"no price is known for {new.cloud} part {item!r}", where="--item", remedy=remedy)
    if not find_cloud_part_price(new.cloud, component.region, item) and find_cloud_part_price(
        new.cloud, GLOBAL, item
    ):
        return _insert_charge(text, new, GLOBAL)
    return table, charges


def _insert_charge(text: str, new: NewCharge, scope: str) -> tuple[str, tuple[Charge, ...]]:
    cells = {column: scope if column == "scope" else getattr(new, column) for column in COLUMNS}
    table = _insert_row(text, cells.values(), len_of_key=1)
    rows = decode_csv(table, CHARGES.name, COLUMNS, limits=LARGE_DOCUMENT)
    return table, parse_charges(row for row in rows if row["type"] == new.type)[new.type]


def _find_component(
    new: NewCharge, charges: tuple[Charge, ...], inputs: Mapping[str, Any]
) -> CostComponent | UsageComponent:
    """Return what the new charge bills for the example."""
    resource = make_resource(new.type, inputs)
    usage = make_usage({each.key: AMOUNT for each in charges if each.is_by_use})
    components = _make_pricer(new, charges)(resource, ResourceGraph([resource], usage))
    component = next((each for each in components if each.component == new.component), None)
    if isinstance(component, UnpricedComponent) or component is None:
        reason = component.reason if component else "the charge bills nothing of it"
        raise InputError(reason, where="--example")
    return component


def _make_pricer(new: NewCharge, charges: tuple[Charge, ...]) -> Pricer:
    location = import_module(f"gpufleet.cost.pricing.pricers.{new.cloud}.location")
    return make_table_pricers({new.type: charges}, location.pricer)[new.type]


def _make_case(
    new: NewCharge, charges: tuple[Charge, ...], inputs: Mapping[str, Any], usage: Mapping[str, Any]
) -> Record:
    """Return a case with the bill that the price list makes, which nobody has confirmed yet."""
    case = {"type": new.type, "inputs": inputs, "usage": usage}
    with patch.dict(PRICERS, {new.type: _make_pricer(new, charges)}):
        bill = price_case(case)
    for line in bill.unpriced_resources:
        raise InputError(f"{line.component}: {line.reason}", where="--example")
    return case | describe_bill(bill) | {"confirmed_by": ""}


def _add_key(text: str, new: NewCharge, charge: Charge) -> str:
    """Return the keys of usage files with that of the charge; another type may have it with unit and meaning."""
    if not charge.is_by_use:
        if new.unit or new.meaning:
            raise InputError(
                f"is for a key of the usage file, not for the quantity {new.quantity!r}", where="--unit"
            )
        return text
    rows = [row for row in decode_csv(text, KEYS.name, limits=LARGE_DOCUMENT) if row["key"] == charge.key]
    if any(row["type"] == new.type for row in rows):
        return text
    first = rows[0] if rows else {"unit": "", "meaning": ""}
    unit, meaning = new.unit or first["unit"], new.meaning or first["meaning"]
    if not unit or not meaning:
        raise InputError(
            f"the usage key {charge.key} is new", where="--quantity", remedy="give its --unit and --meaning"
        )
    return _insert_row(text, (new.type, charge.key, unit, meaning), len_of_key=2)


def _remove_free_type(text: str, type_token: str) -> str:
    """Return the free types without this one; a pattern of several must be narrowed by hand."""
    rows = decode_csv(text, FREE.name, limits=LARGE_DOCUMENT)
    for row in rows:
        if row["type"] != type_token and fnmatchcase(type_token, row["type"]):
            raise InputError(f"{row['type']} is free", where=row.where, remedy="name its free types instead")
    return "".join(line for line in text.splitlines(True) if line.split(",")[0] != type_token)


def _insert_row(text: str, cells: Any, len_of_key: int) -> str:
    """Return a sorted table with one more row; the first cells are its key, and are not quoted."""
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    header, *lines = text.splitlines(True)
    key = line.getvalue().split(",")[:len_of_key]
    before = [each for each in lines if each.rstrip("\n").split(",")[:len_of_key] <= key]
    return "".join((header, *before, line.getvalue(), *lines[len(before) :]))


def _read_json(path: Path) -> Any:
    return decode_json(read_text(path, limits=LARGE_DOCUMENT), path.name, limits=LARGE_DOCUMENT)


def _read_example(path: Path | None) -> dict[str, Any]:
    """Return the inputs and amounts of an example file."""
    if path is None:
        return {}
    example = decode_json_object(read_text(path), str(path))
    for key, values in example.items():
        if key not in ("inputs", "usage") or not isinstance(values, dict):
            raise InputError(
                "is not an example", where=str(path), key=key, remedy='write {"inputs": {…}, "usage": {…}}'
            )
    return example


def _list(names: Iterable[str]) -> str:
    return f"use one of {', '.join(names) or 'none'}"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InputError(message, remedy="see --help")


def _parse_arguments(arguments: Sequence[str]) -> tuple[NewCharge, Path | None]:
    parser = _Parser(prog="python -m tools.new_price", description="Add a charge of a resource type.")
    parser.add_argument("type", metavar="TYPE", help="the provider's token: gcp:dns/managedZone:ManagedZone")
    parser.add_argument("--component", required=True, help="its name on the bill")
    parser.add_argument("--item", required=True, help="its name in the price list; may have {path|default}")
    parser.add_argument("--quantity", default="1", help="a product (1), or use:KEY, or stored:KEY")
    parser.add_argument("--at-most", default="", help="the path of an upper bound of the quantity")
    parser.add_argument("--only", default="", help="path=words: the tiers that are charged")
    parser.add_argument("--listed", default="yes", help="no: only on the bill with an amount")
    parser.add_argument("--unit", default="", help="of a new key of the usage file: GiB, requests")
    parser.add_argument("--meaning", default="", help="of a new key: kept on average over the month")
    parser.add_argument(
        "--example", type=Path, metavar="FILE.json", help='{"inputs": {…}, "usage": {…}} of one resource'
    )
    options = vars(parser.parse_args(arguments))
    path = options.pop("example")
    return NewCharge(**options), path


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Write the files, or say in one line why not."""
    os.environ["GPUFLEET_PRICES"] = "embedded"  # a case has the prices of the repository
    try:
        new, path = _parse_arguments(arguments)
        texts = plan_files(new, _read_example(path), root)
    except GpufleetError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    for name, text in texts.items():
        if not (root / name).exists() or (root / name).read_text() != text:
            write_text(root / name, text)
            print(f"wrote {name}")
    if new.package not in SDKS:
        print(f"next: check type and inputs yourself: no SDK of {new.package} is installed")
    if find_focus_service(new.cloud, new.item, new.type) == OTHER_SERVICE:
        print(f"next: name its service in {DATA}/focus_services.csv")
    print(f"next: calculate the bill by hand from the provider's published prices: confirmed_by in {CASES}")
    print(
        "next: pytest tests/cost/pricers tests/cost/test_type_table.py tests/cost/test_unreadable_inputs.py"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
