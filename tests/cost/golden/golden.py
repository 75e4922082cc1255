"""Golden programs: resources before and after a change, and their cost as manual arithmetic.

A family's file lists small programs by purchase kind. Each has an ``old`` and a ``new`` state, so that every
operation of the engine can be asked of it: made (nothing, then new), changed in place, replaced in one step
or in three, taken away, left alone, imported, only read. The preview is written here, as the engine writes it.
"""

from __future__ import annotations

import csv
import json
import re
import shutil
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import yaml

from gpufleet.catalog import Price
from gpufleet.cost import PriceBook
from gpufleet.engine import StateResource
from hand_arithmetic import evaluate_arithmetic

FOLDER = Path(__file__).resolve().parents[2] / "cases" / "cost" / "golden"
UNKNOWN_TEXT = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
OPERATIONS = ("create", "update", "replace-1", "replace-3", "delete", "same", "import", "read")
REFERENCE = re.compile(r"^\$\{([\w-]+)\.(\w+)\}$")  # ${template.id}: an output of another resource
OPTIONS = ("protect", "retainOnDelete", "ignoreChanges", "external", "viewOf", "delete")


@dataclass(frozen=True)
class Side:
    """One state of a program and its money: by charge, in all, and the least and most it may be."""

    program: dict[str, dict]
    rows: dict[str, Decimal]
    total: Decimal
    low: Decimal
    high: Decimal
    unpriced: tuple[str, ...] = ()


NOTHING = Side({}, {}, Decimal(0), Decimal(0), Decimal(0))


@dataclass(frozen=True)
class Golden:
    """One small program."""

    family: str
    purchase: str
    what: str
    old: Side
    new: Side
    overlap: Decimal
    commitments: list = field(default_factory=list)

    @property
    def slug(self) -> str:
        return re.sub(r"\W+", "-", f"{self.family}-{self.purchase}-{self.what}").lower()

    @property
    def component(self) -> str:
        return f"gpufleet:cloud:{self.slug}"  # of a pool: its tags set prices

    def sides(self, operation: str) -> tuple[Side, Side]:
        """Return which state stands before an operation, and which after it."""
        return {
            "create": (NOTHING, self.new),
            "import": (NOTHING, self.new),
            "delete": (self.old, NOTHING),
            "same": (self.new, self.new),
            "read": (NOTHING, NOTHING),
        }.get(operation, (self.old, self.new))


def _side(record: dict) -> Side:
    rows, lines = {}, list(record["money"])
    total = evaluate_arithmetic(lines.pop().removeprefix("total:"))
    for line in lines:
        key, _, arithmetic = line.partition(": ")
        assert key not in rows, key
        rows[key] = evaluate_arithmetic(arithmetic)
    assert total == sum(rows.values(), Decimal(0)), f"the rows of {record} do not make {total}"
    low, high = (evaluate_arithmetic(record[key]) if key in record else total for key in ("low", "high"))
    return Side(record["program"], rows, total, low, high, tuple(record.get("unpriced", ())))


def load_cases() -> list[Golden]:
    """Read every golden program."""
    return [case for path in sorted(FOLDER.glob("*.yaml")) for case in _family(path)]


def _family(path: Path) -> list[Golden]:
    document = yaml.safe_load(path.read_text())
    return [
        Golden(
            program.get("family", document["family"]),
            program["purchase"],
            program["what"],
            _side(program["old"]),
            _side(program["new"]),
            evaluate_arithmetic(program["overlap"]),
            program.get("commitments", []),
        )
        for program in document["programs"]
    ]


def book() -> PriceBook:
    """Return the prices that golden programs are written against."""
    with (FOLDER / "prices.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    table = {(row["cloud"], row["region"], row["item"], row["purchase"]): row for row in rows}
    assert len(table) == len(rows)

    def lookup(cloud, region, item, purchase):
        row = table.get((cloud, region, item, purchase))
        return row and Price(
            float(row["usd_per_hour"]), "unit", "2026-11-21", row["source"], "high", region, purchase
        )

    return PriceBook(lookup, lookup)


def preview(golden: Golden, operation: str) -> dict:
    """Return the preview of an operation, by hand, in the engine's shape."""
    parent = f"urn:pulumi:prod::golden::{golden.component}::case"
    holder = {"urn": parent, "type": golden.component, "custom": False}
    old, new = (side.program for side in golden.sides(operation))
    if operation == "read":
        new = {name: {**resource, "external": True} for name, resource in golden.new.program.items()}
    steps = [{"op": "create" if not old else "same", "urn": parent, "newState": holder}]
    for name in {**old, **new}:
        steps += _steps(golden, operation, name, old, new)
    return {"config": {}, "steps": steps, "diagnostics": [], "changeSummary": {}}


def _steps(golden: Golden, operation: str, name: str, old: dict, new: dict) -> list[dict]:
    before, after = (_record(golden, name, side, known=side is old) for side in (old, new))
    urn = (after or before)["urn"]
    states = ({"oldState": before} if before else {}) | ({"newState": after} if after else {})
    op = operation.partition("-")[0]
    if old and new and op != "same":
        op = "create" if not before else "delete" if not after else op if old[name] != new[name] else "same"
    if operation == "replace-3" and op == "replace":
        steps = [
            ("create-replacement", states),
            ("replace", states),
            ("delete-replaced", {"oldState": before}),
        ]
    else:
        steps = [(op, states)]
    return [{"op": op, "urn": urn, **states} for op, states in steps]


def urn_of(golden: Golden, name: str, side: dict) -> str:
    """Return the URN of a program's resource."""
    return f"urn:pulumi:prod::golden::{golden.component}${side[name]['type']}::{name}"


def _record(golden: Golden, name: str, side: dict, *, known: bool) -> dict | None:
    """Return a resource as a step or a state has it; what another resource brings is unknown before it exists."""
    if name not in side:
        return None
    resource_spec, made_from = side[name], {}

    def resolved(value, key=None):
        if isinstance(value, dict):
            return {name: resolved(nested, key or name) for name, nested in value.items()}
        if isinstance(value, list):
            return [resolved(item, key) for item in value]
        reference = REFERENCE.match(value) if isinstance(value, str) else None
        if not reference:
            return value
        made_from[key] = [urn_of(golden, reference[1], side)]
        return f"id-of-{reference[1]}" if known else UNKNOWN_TEXT

    record = {
        "urn": urn_of(golden, name, side),
        "custom": resource_spec.get("custom", True),
        "type": resource_spec["type"],
        "inputs": resolved(resource_spec["inputs"]),
        "parent": f"urn:pulumi:prod::golden::{golden.component}::case",
        **{key: resource_spec[key] for key in OPTIONS if key in resource_spec},
    }
    if known:
        record |= {"id": f"id-of-{name}", "outputs": {"id": f"id-of-{name}"}}
    return record | ({"propertyDependencies": made_from} if made_from else {})


def state(golden: Golden, side: Side) -> dict:
    """Return a ``pulumi stack export`` of one side."""
    holder = {
        "urn": f"urn:pulumi:prod::golden::{golden.component}::case",
        "type": golden.component,
        "custom": False,
    }
    records = [_record(golden, name, side.program, known=True) for name in side.program]
    return {"version": 3, "deployment": {"resources": [holder, *records]}}


def write_program(folder: Path, cases: list[Golden], stacks: dict[str, str]) -> Path:
    """Write one Python program that declares all of these; each stack is one side of them."""
    (folder / "Pulumi.yaml").write_text("name: golden\nruntime: python\n")
    shutil.copy(FOLDER / "program.py", folder / "__main__.py")
    programs = {case.component: {"old": case.old.program, "new": case.new.program} for case in cases}
    (folder / "cases.json").write_text(json.dumps(programs))
    for stack, side in stacks.items():
        (folder / f"Pulumi.{stack}.yaml").write_text(f"config:\n  golden:side: {side}\n")
    return folder


def select_case_resources(resources: tuple[StateResource, ...], golden: Golden) -> list[StateResource]:
    """Return the resources in the component of one case."""
    return [
        resource for resource in resources if resource.urn.split("::")[2].split("$")[0] == golden.component
    ]
