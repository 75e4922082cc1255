"""Drift: what is declared, what the cloud says and what is found on the node, side by side.

Only what needs somebody is an action. What changes by itself (a spot node that the cloud took back, an address) is
listed apart: a report that is mostly routine is not read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import Any

from gpufleet.burnin.checks.memory.read import count_missing_gib
from gpufleet.drivers import GpuCard, PciDevice, find_card_of_device
from gpufleet.nodes import Node, SourceConflict, SourcedValue, is_rehearsal_address
from gpufleet.nodes.expectation import build_expected_hardware
from gpufleet.nodes.model import is_witness_source, utc_now
from gpufleet.nodes.states import USABLE_STATES
from gpufleet.operations.node_comparison import ACTION, ROUTINE, ValueClass
from gpufleet.operations.node_view import NodeFilter, format_age, open_existing_registry
from gpufleet.operations.site_file import load_site_cards
from gpufleet.text_table import align_columns

CLOUD_FIELDS: Mapping[str, ValueClass] = {
    "machine": ACTION,
    "region": ACTION,
    "template": ACTION,
    "zone": ROUTINE,
    "purchase": ROUTINE,
}
"""Fields that stack and cloud both give, and what a difference means: a ladder may replace spot by on demand."""
OTHER_MARKETS = ("integrated", "switch")
"""Functions that are no card of their own, unless that very one is declared."""
SMALLEST_MEMORY_SHARE = 0.9  # as burn-in's check memory has it for machines under 192 GiB
SMALLEST_DRIVE_SHARE = 0.9  # of the declared size: decimal against binary units are 7 % apart
STALE_FACTS = timedelta(days=7)
SPOT = "spot"


@dataclass(frozen=True)
class DriftEntry:
    """One thing in which declaration, cloud and node differ; ``remedy`` is the next step."""

    node: str
    what: str
    declared: str
    cloud: str
    found: str
    kind: ValueClass
    remedy: str

    def as_json(self) -> dict[str, Any]:
        """Return the entry for programs."""
        return {
            name: getattr(self, name)
            for name in ("node", "what", "declared", "cloud", "found", "kind", "remedy")
        }


@dataclass(frozen=True)
class DriftReport:
    """The entries of the nodes that were compared, and what could not be compared."""

    compared: int
    entries: tuple[DriftEntry, ...]
    notes: tuple[str, ...]

    @property
    def needs_action(self) -> bool:
        """True if an entry needs somebody."""
        return any(entry.kind == ACTION for entry in self.entries)

    def as_json(self) -> dict[str, Any]:
        """Return the report for programs."""
        return {
            "compared_nodes": self.compared,
            "needs_action": self.needs_action,
            "entries": [entry.as_json() for entry in self.entries],
            "notes": list(self.notes),
        }


def find_registered_drift(node_filter: NodeFilter) -> DriftReport:
    """Return the drift of the registry's live nodes."""
    with open_existing_registry() as registry:
        nodes = [node for node in node_filter.select_nodes(registry.list_nodes()) if node.state != "retired"]
        values = registry.list_values_by_node([node.id for node in nodes])
        conflicts = registry.list_open_conflicts()
    return find_drift(nodes, values, conflicts, load_site_cards(), utc_now())


def find_drift(
    nodes: Sequence[Node],
    values: Mapping[str, Sequence[SourcedValue]],
    conflicts: Iterable[SourceConflict],
    site_cards: Sequence[GpuCard],
    now: datetime,
) -> DriftReport:
    """Return the drift of nodes from everything that the registry knows of them; ``values`` by node id. Pure."""
    cards = {(card.pci, card.subsystem): card for card in site_cards}
    names = {node.id: node.name for node in nodes}
    entries: list[DriftEntry] = []
    for node in nodes:
        by_key = _sort_values(values.get(node.id, ()))
        entries += _compare_presence(node)
        entries += _compare_cloud(node, by_key)
        if not is_rehearsal_address(node.address):  # its hardware is the machine's that runs it
            entries += _compare_hardware(node, by_key, cards)
    entries += [
        DriftEntry(
            names[node_id],
            "identity",
            "-",
            "-",
            conflict.detail,
            ACTION,
            f"gpufleet nodes show {names[node_id]}",
        )
        for conflict in conflicts
        for node_id in conflict.nodes
        if node_id in names
    ]
    entries.sort(key=lambda entry: (entry.kind != ACTION, entry.node, entry.what))
    return DriftReport(len(nodes), tuple(entries), tuple(_list_unread(nodes, values, now)))


def _sort_values(values: Iterable[SourcedValue]) -> dict[str, dict[str, SourcedValue]]:
    """Return the newest value of each field, by who says it: declared, cloud, node."""
    best: dict[str, dict[str, SourcedValue]] = {}
    for value in values:
        aspect, _, field = value.key.partition(".")
        # The engine's state says what was made, not what is there now.
        if aspect == "declared" or value.source.startswith("pulumi:"):
            who = "declared"
        else:
            who = "node" if is_witness_source(value.source) else "cloud"
        told = best.setdefault(field, {})
        if who not in told or told[who].revision <= value.revision:
            told[who] = value
    return best


def _compare_presence(node: Node) -> Iterator[DriftEntry]:
    lost = [seen.source for seen in node.making_sources if seen.missing_since]
    present = [seen.source for seen in node.making_sources if not seen.missing_since]
    if lost:
        is_taken_back = node.is_missing and bool(node.cloud)
        kind: ValueClass = ROUTINE if is_taken_back and node.state not in USABLE_STATES else ACTION
        yield DriftEntry(
            node.name, "presence", ", ".join(present) or "no longer", "-",
            f"missing from {', '.join(lost)}", kind,
            f"gpufleet nodes retire {node.name}" if node.is_missing else "pulumi refresh, then gpufleet nodes sync",
        )  # fmt: skip
    elif node.reachable is False and node.state in USABLE_STATES:
        yield DriftEntry(
            node.name, "reachable", node.state, "-", node.reachable_detail or "no answer", ACTION,
            f"gpufleet nodes hold {node.name} operator",
        )  # fmt: skip


def _compare_cloud(node: Node, by_key: Mapping[str, Mapping[str, SourcedValue]]) -> Iterator[DriftEntry]:
    for field, kind in CLOUD_FIELDS.items():
        told = by_key.get(field, {})
        declared, cloud = (told[who].value if who in told else None for who in ("declared", "cloud"))
        if declared and cloud and str(declared).lower() != str(cloud).lower():
            yield DriftEntry(
                node.name, field, str(declared), str(cloud), "-", kind, "pulumi preview --refresh"
            )


def _compare_hardware(
    node: Node,
    by_key: Mapping[str, Mapping[str, SourcedValue]],
    site_cards: Mapping[tuple[str, str], GpuCard],
) -> Iterator[DriftEntry]:
    """Yield what is declared and not on the node; a node that was not asked is compared in nothing."""
    found = {field: told["node"].value for field, told in by_key.items() if "node" in told}
    expected = build_expected_hardware(node)
    remedy = f"gpufleet burnin run {node.name}"
    if "arch" in found and node.accelerators:
        yield from _compare_cards(node, found, site_cards, remedy)
    memory, total = expected.get("expect_memory_gib"), found.get("memory_gib")
    if memory and isinstance(total, float) and _is_memory_missing(total, memory):
        yield DriftEntry(node.name, "memory", f"{memory:g} GiB", "-", f"{total:g} GiB", ACTION, remedy)
    if (size := expected.get("expect_drive_gib")) and "arch" in found:
        wanted = expected.get("expect_drives", 1)
        drives = [
            drive for drive in found.get("drives") or () if drive.get("gib", 0) >= SMALLEST_DRIVE_SHARE * size
        ]
        if len(drives) < wanted:
            yield DriftEntry(
                node.name,
                "drives",
                f"{wanted} x {size:g} GiB",
                "-",
                f"{len(drives)} of that size",
                ACTION,
                remedy,
            )


def _is_memory_missing(total: float, declared: float) -> bool:
    missing = count_missing_gib(total, declared)
    return missing > 0 if missing is not None else total < SMALLEST_MEMORY_SHARE * declared


def _compare_cards(
    node: Node, found: Mapping[str, Any], site_cards: Mapping[tuple[str, str], GpuCard], remedy: str
) -> Iterator[DriftEntry]:
    """Yield cards that are missing or others than declared, and cards that the bus has and the driver has not."""
    wanted = Counter(
        {card["model"]: ceil(card["count"]) for card in node.accelerators}
    )  # a share of a card is a card
    cards = [
        card for device in _list_pci(found.get("pci")) if (card := find_card_of_device(device, site_cards))
    ]
    cards = [
        card
        for card in cards
        if card.market not in OTHER_MARKETS or wanted.keys() & {card.name, *card.catalogue}
    ]
    declared = ", ".join(f"{count} x {model}" for model, count in wanted.items())
    names = Counter(card.display_name for card in cards)
    shown = ", ".join(f"{count} x {name}" for name, count in names.items()) or "none"
    fits = [card for card in cards if not wanted.keys().isdisjoint((card.name, *card.catalogue))]
    if len(fits) != sum(wanted.values()) or len(fits) != len(cards):
        yield DriftEntry(node.name, "accelerators", declared, "-", shown, ACTION, remedy)
    nvidia = [card for card in cards if card.pci.startswith("10de:")]
    if found.get("nvidia_driver") and len(found.get("nvidia_cards") or ()) < len(nvidia):
        yield DriftEntry(
            node.name, "driver", f"{len(nvidia)} cards on the bus", "-",
            f"{len(found.get('nvidia_cards') or ())} in nvidia-smi", ACTION, remedy,
        )  # fmt: skip


def _list_pci(functions: Any) -> Iterator[PciDevice]:
    for entry in functions if isinstance(functions, list) else ():
        vendor, _, device = str(entry.get("id", "")).partition(":")
        yield PciDevice(
            entry.get("address", ""), vendor, device, entry.get("class", ""), entry.get("subsystem", "")
        )


def _list_unread(
    nodes: Iterable[Node], values: Mapping[str, Sequence[SourcedValue]], now: datetime
) -> Iterator[str]:
    """Yield how many nodes were never asked for their hardware, or not lately."""
    live = [node for node in nodes if node.address and not node.is_missing]
    newest = {
        node.id: max(
            (value.observed_at for value in values.get(node.id, ()) if value.source == "ssh"), default=None
        )
        for node in live
    }
    unread = sum(at is None for at in newest.values())
    old = [at for at in newest.values() if at is not None and now - at > STALE_FACTS]
    if unread:
        yield f"{unread} of {len(live)} nodes were never asked over SSH: gpufleet nodes facts"
    if old:
        yield f"{len(old)} were last asked up to {format_age(min(old), now)} ago: gpufleet nodes facts"


def format_drift_lines(report: DriftReport, *, with_routine: bool) -> list[str]:
    """Return a summary, then the entries as a table; routine ones are only counted unless asked for."""
    shown = [entry for entry in report.entries if with_routine or entry.kind == ACTION]
    routine = len(report.entries) - sum(entry.kind == ACTION for entry in report.entries)
    nodes = len({entry.node for entry in report.entries if entry.kind == ACTION})
    lines = [
        f"{nodes} of {report.compared} nodes need somebody"
        if nodes
        else f"{report.compared} nodes, nothing to do"
    ]
    if shown:
        rows = [
            (e.node, e.what, e.declared, e.cloud, e.found, e.remedy if e.kind == ACTION else ROUTINE)
            for e in shown
        ]
        lines += align_columns(("NODE", "WHAT", "DECLARED", "CLOUD", "FOUND", "NEXT"), rows)
    if routine and not with_routine:
        lines.append(f"and {routine} routine differences: --all")
    return lines + list(report.notes)
