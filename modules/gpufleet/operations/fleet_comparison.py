"""Compare each node's newest burn-in with its equals: same machine type, slot or thermal zone, and same GPU model."""

from __future__ import annotations

from collections.abc import Mapping

from gpufleet.boundary import Json
from gpufleet.burnin.evidence import list_or_empty, mapping_or_empty
from gpufleet.burnin.outliers import NodeMeasurements, Straggler, find_stragglers, measure_records
from gpufleet.nodes import Node
from gpufleet.operations.burnin import StoredBurninResult, load_newest_burnin_results, open_results_registry

# The thirds of a rack, from its lowest slot: air gets warmer on its way up.
ZONES = ("lower", "middle", "upper")
GROUP_TEXTS = {
    "machine": "nodes of the same machine type",
    "slot": "nodes in the same slot",
    "zone": "nodes in the same thermal zone",
    "part": "GPUs of the same model",
}
# Between a node's name and its GPU's address; no name has it.
DEVICE_SEPARATOR = "\0"
MAX_DEVICES = 64


def compare_fleet(min_group: int) -> Json:
    """Return the stragglers among all nodes' newest results, and how many nodes were compared."""
    with open_results_registry() as registry:
        results = load_newest_burnin_results(registry, None)
    stragglers = find_straggler_rows(results, min_group)
    return {"compared_nodes": len(results), "min_group": min_group, "stragglers": stragglers}


def find_straggler_rows(results: list[StoredBurninResult], min_group: int) -> list[Json]:
    """Return the evidence about every straggler: nodes among nodes, and GPUs among GPUs."""
    measured = [*measure_nodes(results), *measure_devices(results)]
    return list(map(as_json, find_stragglers(measured, min_group=min_group)))


def measure_nodes(results: list[StoredBurninResult]) -> list[NodeMeasurements]:
    """Return what the nodes measured, with their groups."""
    heights: dict[str, int] = {}
    for stored in results:
        if stored.node.rack and isinstance(stored.node.slot_number, int):
            heights[stored.node.rack] = max(heights.get(stored.node.rack, 0), stored.node.slot_number)
    return [
        NodeMeasurements(
            stored.node.name,
            measure_records(stored.result.records),
            build_groups(stored.node, str(stored.result.report.get("profile")), heights),
        )
        for stored in results
    ]


def measure_devices(results: list[StoredBurninResult]) -> list[NodeMeasurements]:
    """Return what each GPU of the nodes with several GPUs measured: its node shows only the worst one."""
    measured: list[NodeMeasurements] = []
    for stored in results:
        for address, records in split_records_by_device(stored.result.records).items():
            names = [record["raw"]["devices"][0].get("name") for record in records]
            model = next((str(name)[:100] for name in names if name), "unknown model")
            name = f"{stored.node.name}{DEVICE_SEPARATOR}{address}"
            group = f"{model}, {stored.result.report.get('profile')}"
            measured.append(NodeMeasurements(name, measure_records(records), {"part": group}))
    return measured


def split_records_by_device(records: list[Json]) -> dict[str, list[Json]]:
    """Return the check records of each GPU by its address, as if it were the node's only one."""
    by_device: dict[str, list[Json]] = {}
    for record in map(mapping_or_empty, records):
        devices = list_or_empty(mapping_or_empty(record.get("raw")).get("devices"))
        addressed = [
            entry for entry in map(mapping_or_empty, devices) if isinstance(entry.get("bus_id"), str)
        ]
        if len(addressed) > 1:
            for device in addressed[:MAX_DEVICES]:
                by_device.setdefault(device["bus_id"], []).append({**record, "raw": {"devices": [device]}})
    return by_device


def build_groups(node: Node, profile: str, heights: Mapping[str, int]) -> dict[str, str]:
    """Return a node's groups by kind. Only equal machines that ran the same profile are compared."""
    machine = f"{describe_machine(node)}, {profile}"
    groups = {"machine": machine}
    if node.rack and isinstance(node.slot_number, int):
        groups["slot"] = f"{machine}, slot {node.slot_number}"
        third = (node.slot_number - 1) * len(ZONES) // max(heights.get(node.rack, 1), 1)
        groups["zone"] = f"{machine}, {node.rack}, {ZONES[max(0, min(third, len(ZONES) - 1))]} third"
    return groups


def describe_machine(node: Node) -> str:
    """Return a node's machine type; without one, its kind and accelerators."""
    parts = [f"{part.get('count', 1)}x {part.get('model', 'unknown')}" for part in node.accelerators]
    return node.machine or " ".join([node.kind, *parts])


def as_json(straggler: Straggler) -> Json:
    """Return the evidence about one straggler."""
    metric, outlier = straggler.metric, straggler.outlier
    node, _, device = outlier.name.partition(DEVICE_SEPARATOR)
    return {
        "node": node,
        "device": device,
        "check": metric.check,
        "measurement": metric.label,
        "value": outlier.value,
        "unit": metric.unit,
        "median": outlier.median,
        "deviation_percent": round(100 * (outlier.value / outlier.median - 1), 1) if outlier.median else None,
        "score": round(outlier.score, 1),
        "cutoff": round(outlier.cutoff, 2),
        "group_kind": straggler.group_kind,
        "group": straggler.group,
        "group_size": outlier.group_size,
    }


def format_comparison(comparison: Json) -> str:
    """Return the stragglers as lines, one for each node and measurement with the groups in which it stands out."""
    head = f"{comparison['compared_nodes']} nodes compared; groups of at least {comparison['min_group']}"
    by_measurement: dict[tuple[str, ...], list[Json]] = {}
    for row in comparison["stragglers"]:
        key = (row["node"], row["device"], row["check"], row["measurement"])
        by_measurement.setdefault(key, []).append(row)
    if not by_measurement:
        return f"{head}: no node stands out"
    return "\n".join([head, *(line for rows in by_measurement.values() for line in format_straggler(rows))])


def format_straggler(rows: list[Json]) -> list[str]:
    """Return the lines on one measurement of one node."""
    first = rows[0]
    name = f"{first['node']} GPU {first['device']}" if first["device"] else first["node"]
    lines = [f"warn  {name}  {first['measurement']} ({first['check']}): {first['value']:g} {first['unit']}"]
    for row in rows:
        share = "" if row["deviation_percent"] is None else f"{row['deviation_percent']:+.1f} %, "
        lines.append(
            f"      {share}{row['score']:g} deviations from the median {row['median']:g} of {row['group_size']}"
            f" {GROUP_TEXTS[row['group_kind']]} ({row['group']})"
        )
    return lines
