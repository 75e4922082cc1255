"""The hardware that a node should have, from what is declared: parameters of the burn-in agent. Pure.

A value comes from the declaration of the node (a rack file, a stack) and from the catalogue's row of its machine, never
from what the node reports. Nothing declared means nothing expected.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpufleet import catalog
from gpufleet.errors import InputError
from gpufleet.nodes.model import Node

VARIABLE = "gpufleet_burn_in_expected"
"""The host variable that has the parameters."""

_COUNTERS = {"NVIDIA": "expect_gpus", "AMD": "expect_amd_gpus"}
_GPU_KINDS = ("gpu_datacenter", "gpu_workstation", "gpu_gaming")


def build_expected_hardware(node: Node) -> dict[str, Any]:
    """Return the agent's ``expect_…`` parameters."""
    expected: dict[str, Any] = {}
    cards = [(card, int(count)) for card, count in _list_gpus(node)]
    for card, count in cards:
        counter = _COUNTERS[card.vendor]
        expected[counter] = expected.get(counter, 0) + count
    if cards:
        expected["expect_gpu_models"] = "; ".join(sorted({card.name for card, _ in cards}))
    if memory_gib := node.hardware.get("memory_gib") or _find_memory_gib(node):
        expected["expect_memory_gib"] = memory_gib
    expected |= _find_drives(node)
    if interfaces := node.hardware.get("interfaces"):
        expected["expect_interfaces"] = interfaces
    expected |= {
        f"expect_{name}": value for name in ("nvlinks", "nvswitch") if (value := node.hardware.get(name))
    }
    fabric = node.hardware.get("fabric") or {}
    names = {
        "kind": "expect_fabric",
        "adapters": "expect_fabric_adapters",
        "devices": "expect_fabric_devices",
        "expected_gbit_per_s": "expect_fabric_gbit_per_s",
    }
    return expected | {names[key]: value for key, value in fabric.items() if key in names}


def _list_gpus(node: Node) -> Iterator[tuple[catalog.Accelerator, int]]:
    """Yield the GPUs of the vendors that burn-in knows, with the number that the PCI bus shows."""
    for entry in node.accelerators:
        try:
            card = catalog.get_accelerator(entry["model"])
        except InputError:
            continue  # not in the catalogue of today: what it is cannot be compared
        if card.vendor in _COUNTERS and card.kind in _GPU_KINDS:
            yield card, entry["count"]


def _find_drives(node: Node) -> dict[str, Any]:
    """Return the size of one drive and how many there are: declared, else those that a cloud's machine comes with."""
    if storage_gib := node.hardware.get("storage_gib"):
        drives = node.hardware.get("drives")
        return {"expect_drive_gib": round(storage_gib, 1)} | ({"expect_drives": drives} if drives else {})
    facts = catalog.get_machine_facts(node.machine, node.cloud) if node.machine and node.cloud else None
    if facts is None or facts.local_disk_counts or not facts.local_disk_count or not facts.local_disk_gib:
        return {}  # unknown, none, or as many as the pool attaches
    return {"expect_drive_gib": facts.local_disk_gib, "expect_drives": facts.local_disk_count}


def _find_memory_gib(node: Node) -> float | None:
    try:
        return catalog.get_machine(node.machine, node.cloud).memory_gib if node.machine else None
    except InputError:
        return None
