"""What a stack and its rack files declare, as reports to the registry. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from gpufleet import catalog
from gpufleet.errors import InputError
from gpufleet.fleet import AcceleratorRequest, Rack, RackNode, Workstation
from gpufleet.nodes.identity import NodeIdentity, normalize_serial
from gpufleet.nodes.model import Node, NodeObservation
from gpufleet.nodes.source_report import SourceReport

NEVER = datetime(1970, 1, 1, tzinfo=UTC)
RACK_KINDS = {"blades": "compute_blade", "bench": "pi_gpu_bench", "servers": "gpu_server"}
"""The kind of node that each kind of rack holds; burn-in chooses its checks by it."""

KINDS = (*RACK_KINDS.values(), "workstation", "cloud_vm")


def build_rack_report(
    rack: Rack, observed_at: datetime, stack: str | None = None, template: str | None = None
) -> SourceReport:
    """Return what a rack file declares; template and stack where a stack uses the rack."""
    source = f"rack:{rack.name}"
    shared = {"kind": RACK_KINDS[rack.kind]}
    used = {"stack": stack, "template": template} if stack else {}
    usd_per_hour = rack.usd_per_hour_by_node
    observations = [
        _rack_node(
            node,
            rack,
            source,
            {**shared, "usd_per_hour": usd_per_hour.get(node.name), **used},
            observed_at,
        )
        for node in rack.nodes
    ]
    return SourceReport(source, observed_at, observations)


def list_declared_nodes(rack: Rack, stack: str | None = None, template: str | None = None) -> list[Node]:
    """Return a rack's slots as nodes in state expected, without an id, as the registry would store them."""
    reason = f"declared by rack:{rack.name}"
    kind, usd_per_hour = RACK_KINDS[rack.kind], rack.usd_per_hour_by_node
    cards: dict[Any, tuple[dict[str, Any], ...]] = {}
    nodes = []
    for node in rack.nodes:
        hardware = (node.machine, node.accelerators)
        if hardware not in cards:
            cards[hardware] = tuple(list_machine_accelerators(*hardware))
        nodes.append(
            Node(
                id="",
                name=node.name,
                state="expected",
                state_since=NEVER,
                state_reason=reason,
                slot=str(node.slot),
                machine=node.machine,
                address=node.address,
                serial=normalize_serial(node.serial) if node.serial else None,
                accelerators=cards[hardware],
                hardware=_list_hardware(node),
                kind=kind,
                usd_per_hour=usd_per_hour.get(node.name),
                rack=rack.name,
                stack=stack,
                template=template if stack else None,
            )
        )
    return nodes


def _list_hardware(node: RackNode) -> dict[str, Any]:
    """Return the declared values of ``DECLARED_HARDWARE``."""
    return _drop_none({"storage_gib": node.storage_gib}) | node.hardware.list_declared_values()


def _rack_node(
    node: RackNode, rack: Rack, source: str, shared: dict[str, Any], at: datetime
) -> NodeObservation:
    declared = {
        **shared,
        "machine": node.machine,
        "serial": node.serial,
        "address": node.address,
        "mac": node.mac,
        "bmc": node.bmc.model_dump(exclude_none=True) if node.bmc else None,
        **_list_hardware(node),
        "accelerators": list_machine_accelerators(node.machine, node.accelerators),
    }
    identity = NodeIdentity(serial=node.serial, rack=rack.name, slot=str(node.slot))
    return NodeObservation(source, node.name, identity, declared=_drop_none(declared), observed_at=at)


def build_workstation_report(
    stack: str, workstations: Sequence[Workstation], observed_at: datetime
) -> SourceReport:
    """Return the workstations that a stack declares; they have no slot, so their name is who they are."""
    source = f"workstation:{stack}"
    observations = [
        NodeObservation(
            source,
            station.name,
            declared=_drop_none(
                {
                    "kind": "workstation",
                    "stack": stack,
                    "machine": station.machine,
                    "template": station.template,
                    "usd_per_hour": station.usd_per_hour,
                    "accelerators": list_machine_accelerators(station.machine),
                }
            ),
            observed_at=observed_at,
        )
        for station in workstations
    ]
    return SourceReport(source, observed_at, observations)


def list_machine_accelerators(
    machine: str, added_cards: Sequence[AcceleratorRequest] = ()
) -> list[dict[str, Any]]:
    """Return a machine's accelerators as ``nodes list --json`` shows them; added cards come on top."""
    try:
        built_in = catalog.get_machine(machine).accelerators
    except InputError:
        built_in = ()  # retired or unknown: its cards are not ours to guess
    cards = [{"model": a.model, "memory_gib": a.memory_gib, "count": a.count} for a in built_in]
    for card in added_cards:
        memory = catalog.get_accelerator(card.model).memory_gib
        cards.append({"model": card.model, "memory_gib": memory, "count": card.count})
    return cards


def _drop_none(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
