"""What the burn-in pages show: newest reports, measurements over time, sensors under load, stragglers."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from gpufleet.boundary import Json
from gpufleet.burnin.evidence import list_or_empty, mapping_or_empty, to_finite_number
from gpufleet.burnin.outliers import MIN_GROUP, ComparedMetric, measure_records
from gpufleet.console.line_plot import Point
from gpufleet.nodes import BurnInResult, Node
from gpufleet.operations import fleet_comparison
from gpufleet.operations.burnin import StoredBurninResult

MAX_SERIES = 400
# Sensors by their column in a record: what a reader calls them, and the factor to their unit.
SENSORS = {
    "sm_mhz": ("core clock, MHz", 1.0),
    "memory_mhz": ("memory clock, MHz", 1.0),
    "power_mw": ("power, W", 0.001),
    "celsius": ("temperature, °C", 1.0),
    "memory_celsius": ("memory temperature, °C", 1.0),
    "margin_c": ("margin to slowdown, °C", 1.0),
    "link_generation": ("PCIe generation", 1.0),
    "link_lanes": ("PCIe lanes", 1.0),
    "mhz": ("CPU clock, MHz", 1.0),
    "throttled": ("throttling flags", 1.0),
    "undervoltage": ("under-voltage alarm", 1.0),
}


@dataclass(frozen=True)
class SensorSeries:
    """One sensor of one device while one check loaded it."""

    check: str
    device: str
    label: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class NodeBurnin:
    """One node with its newest report and everything that was measured before."""

    node: Node
    report: Json
    recorded_at: datetime
    group: str
    group_file: str
    file_name: str
    history: dict[ComparedMetric, list[Point]] = field(default_factory=dict)
    series: tuple[SensorSeries, ...] = ()
    stragglers: tuple[Json, ...] = ()


def find_group(node: Node) -> str:
    """Return the rack or pool whose page shows the node."""
    return node.rack or node.pool or node.kind


def build_file_name(kind: str, name: str) -> str:
    """Return a page's file name; a name with other characters gets a digest, so that no two are equal."""
    safe = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:80]
    digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:12]
    return f"{kind}-{safe}.html" if safe == name else f"{kind}-{safe}-{digest}.html"


def collect_node_burnins(
    nodes: Sequence[Node], results: Iterable[BurnInResult], group: str | None = None
) -> list[NodeBurnin]:
    """Return every node that has results, or those of one rack or pool, in the registry's order."""
    by_node: dict[str, list[BurnInResult]] = {}
    for result in results:
        by_node.setdefault(result.node, []).append(result)
    measured = [node for node in nodes if node.id in by_node]
    newest = [StoredBurninResult(node, by_node[node.id][-1]) for node in measured]
    stragglers = fleet_comparison.find_straggler_rows(newest, MIN_GROUP)
    return [
        NodeBurnin(
            stored.node,
            stored.result.report,
            stored.result.recorded_at,
            find_group(stored.node),
            build_file_name("rack", find_group(stored.node)),
            build_file_name("node", stored.node.name),
            collect_history(by_node[stored.node.id]),
            tuple(collect_series(stored.result.records))[:MAX_SERIES],
            tuple(row for row in stragglers if row["node"] == stored.node.name),
        )
        for stored in newest
        if group is None or find_group(stored.node) == group
    ]


def collect_history(results: Sequence[BurnInResult]) -> dict[ComparedMetric, list[Point]]:
    """Return each measurement over time; a new judgement of the same records is no new measurement."""
    history: dict[ComparedMetric, list[Point]] = {}
    previous: BurnInResult | None = None
    for result in results:
        if previous is None or previous.records != result.records:
            for metric, value in measure_records(result.records).items():
                history.setdefault(metric, []).append((result.recorded_at.timestamp(), value))
        previous = result
    return history


def collect_series(records: Iterable[object]) -> Iterable[SensorSeries]:
    """Yield the sensors that a check read while its load ran, of the node or of each device."""
    for record in map(mapping_or_empty, records):
        raw = mapping_or_empty(record.get("raw"))
        check = str(record.get("name"))
        yield from read_series(check, "", mapping_or_empty(raw.get("under_load")))
        devices = [(describe_device(entry), entry) for entry in list_or_empty(raw.get("devices"))]
        for device, source in [("", raw), *devices]:
            values = mapping_or_empty(source)
            yield from read_series(check, device, mapping_or_empty(values.get("series")))
            copies = mapping_or_empty(mapping_or_empty(values.get("copy")).get("series"))
            yield from read_series(f"{check} copies", device, copies)


def describe_device(device: object) -> str:
    """Return a device's name and address."""
    values = mapping_or_empty(device)
    return " ".join(str(values[key]) for key in ("name", "bus_id") if key in values)[:100]


def read_series(check: str, device: str, table: Any) -> Iterable[SensorSeries]:
    """Yield the known columns of one time series; the first column is the time."""
    columns = [str(name) for name in list_or_empty(table.get("columns"))]
    samples = [list_or_empty(sample) for sample in list_or_empty(table.get("samples"))]
    for place, column in enumerate(columns):
        if column not in SENSORS:
            continue
        label, factor = SENSORS[column]
        pairs = [
            (to_finite_number(sample[0]), to_finite_number(sample[place]))
            for sample in samples
            if len(sample) == len(columns)
        ]
        points = tuple((at, value * factor) for at, value in pairs if at is not None and value is not None)
        if points:
            yield SensorSeries(check, device, label, points)
