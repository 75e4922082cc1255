"""The hardware that the registry declares, in place of what a node's record repeats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpufleet.burnin.evidence import Raw, to_finite_number
from gpufleet.drivers import PciDevice

# What the check `hardware` compares; other declarations (memory, cores) are judged where they are measured.
COMPARED = frozenset(
    {
        "expect_gpus",
        "expect_amd_gpus",
        "expect_gpu_models",
        "expect_drive_gib",
        "expect_interfaces",
        "expect_fabric",
    }
)
# Declarations that lower what is expected: a record has them only from the registry, whatever the node repeats.
EXCUSES = frozenset({"expect_nvswitch"})
VENDORS = {"expect_gpus": "10de", "expect_amd_gpus": "1002"}


def apply_expected_values(raw: Raw, expected: Mapping[str, Any]) -> Raw:
    """Return a record in which the registry's declarations replace those that the node repeated.

    The record comes from the node, which must not be able to lower what is expected of it. A higher number stays: an
    operator may have asked for more by the agent's parameters.
    """
    merged = {name: value for name, value in raw.items() if name not in EXCUSES}
    for name, value in expected.items():
        repeated = to_finite_number(raw.get(name))
        is_higher = isinstance(value, int | float) and repeated is not None and repeated > value
        merged[name] = raw[name] if is_higher else value
    return merged


def parse_pci_device(entry: Raw) -> PciDevice:
    """Return a device of the record; texts that are not ids match no card."""

    def read_id(name: str) -> str:
        value = entry.get(name)
        return value.removeprefix("0x").lower() if isinstance(value, str) else ""

    subsystem = f"{read_id('subsystem_vendor')}:{read_id('subsystem_device')}"
    return PciDevice(
        str(entry.get("address")), read_id("vendor"), read_id("device"), read_id("class"), subsystem
    )
