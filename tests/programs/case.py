"""Read a public program's case and its arithmetic; build the preview that the engine would write."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).resolve().parents[1] / "cases" / "public_programs"
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"  # the engine's text for what deployment decides
REFERENCE = re.compile(r"^\$\{([^.}]+)(?:\.[^}]*)?\}$")
BY_USE = "by use"
COMPONENT_PACKAGES = ("awsx", "eks", "aws-apigateway", "synced-folder")  # their resources are in the case too


@dataclass(frozen=True)
class HandRow:
    """One line of arithmetic: a resource, what of it bills, and its dollars a month."""

    resource: str
    what: str
    usd_per_month: Decimal
    is_by_use: bool = False


@dataclass(frozen=True)
class Program:
    """One public program: where it is, what it declares, and what that costs by hand."""

    name: str
    repository: str
    path: str
    commit: str
    licence: str
    language: str
    config: dict[str, str]
    resources: dict[str, dict[str, Any]]
    rows: tuple[HandRow, ...] = field(default=())

    @property
    def usd_per_month(self) -> Decimal:
        return sum((row.usd_per_month for row in self.rows), Decimal(0))

    @property
    def billed_names(self) -> set[str]:
        return {row.resource for row in self.rows}


def load_programs(folder: Path = FOLDER) -> list[Program]:
    """Return every program of a folder with its arithmetic."""
    rows = read_hand_rows(folder)
    return [load_program(path, rows.get(path.stem, ())) for path in sorted(folder.glob("*.yaml"))]


def load_program(path: Path, rows: tuple[HandRow, ...]) -> Program:
    """Return one program. A resource's key is ``TYPE NAME``."""
    document = yaml.safe_load(path.read_text())
    document["resources"] = {key: inputs or {} for key, inputs in document["resources"].items()}
    return Program(name=path.stem, rows=rows, **{"config": {}, **document})


def read_unit_prices(folder: Path = FOLDER) -> dict[str, Decimal]:
    """Return the list prices by key."""
    with (folder / "unit_prices.csv").open(newline="") as lines:
        return {row["price"]: Decimal(row["usd"]) for row in csv.DictReader(lines)}


def read_hand_rows(folder: Path = FOLDER) -> dict[str, tuple[HandRow, ...]]:
    """Return the arithmetic by program, after checking each product."""
    prices = read_unit_prices(folder)
    rows: dict[str, tuple[HandRow, ...]] = {}
    with (folder / "by_hand.csv").open(newline="") as lines:
        for row in csv.DictReader(lines):
            is_by_use = row["quantity"] == BY_USE
            usd = Decimal(0) if is_by_use else multiply(row["quantity"]) * prices[row["price"]]
            assert abs(usd - Decimal(row["usd_per_month"] or 0)) <= Decimal("0.005"), f"{row}: it is {usd}"
            hand = HandRow(row["resource"], row["what"], usd, is_by_use)
            rows[row["program"]] = (*rows.get(row["program"], ()), hand)
    return rows


def multiply(text: str) -> Decimal:
    """Return a product such as ``2 x 730``."""
    product = Decimal(1)
    for factor in text.split(" x "):
        product *= Decimal(factor)
    return product


def build_preview(program: Program) -> dict[str, Any]:
    """Return the preview of a first deployment, in the engine's shape."""
    urns = {key.split(" ", 1)[1]: make_urn(program, key) for key in program.resources}
    assert len(urns) == len(program.resources), f"{program.name}: two resources have one name"
    steps = []
    for key, inputs in program.resources.items():
        dependencies: dict[str, list[str]] = {}
        properties = {name: resolve(value, name, urns, dependencies) for name, value in inputs.items()}
        type_ = key.split(" ", 1)[0]
        package = type_.split(":")[0]
        provider = f"urn:pulumi:dev::{program.name}::pulumi:providers:{package}::default::{UNKNOWN}"
        is_custom = package not in COMPONENT_PACKAGES
        state = {
            "urn": make_urn(program, key),
            "type": type_,
            "custom": is_custom,
            "provider": provider if is_custom else "",
            "inputs": properties,
            "propertyDependencies": dependencies,
        }
        steps.append({"op": "create", "urn": state["urn"], "newState": state})
    return {"config": program.config, "steps": steps, "diagnostics": [], "changeSummary": {}}


def make_urn(program: Program, key: str) -> str:
    """Return a resource's URN."""
    type_, name = key.split(" ", 1)
    return f"urn:pulumi:dev::{program.name}::{type_}::{name}"


def resolve(value: Any, name: str, urns: dict[str, str], dependencies: dict[str, list[str]]) -> Any:
    """Return a value with what another resource gives as unknown; ``${?}`` is unknown without a source."""
    if isinstance(value, dict):
        return {key: resolve(item, name, urns, dependencies) for key, item in value.items()}
    if isinstance(value, list):
        return [resolve(item, name, urns, dependencies) for item in value]
    reference = REFERENCE.match(value) if isinstance(value, str) else None
    if not reference:
        return value
    if reference[1] != "?":
        sources = dependencies.setdefault(name, [])
        sources += [urns[reference[1]]] if urns[reference[1]] not in sources else []
    return UNKNOWN
