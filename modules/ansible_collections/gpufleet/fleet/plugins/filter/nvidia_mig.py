# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Devices and command of a MIG geometry, and why it is not in force. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

NO_DRIVER = r"communicate with the NVIDIA driver|No devices|No such file"


def pci_device_ids(card_counts: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the PCI device id of every GPU, in the order of the plan's cards, which is that of their addresses."""
    return [card["pci"].rpartition(":")[2] for card in card_counts for __ in range(card["count"])]


def mig_apply_command(program: str, *, config: str, drained_units: Iterable[str]) -> list[str]:
    """Return the command that creates the instances and stops these units meanwhile."""
    return [program, "apply", config, *(argument for unit in drained_units for argument in ("--drain", unit))]


def is_nvidia_driver_missing(mig_report: Mapping[str, Any]) -> bool:
    """True if the MIG program found no GPU that answers, which is reported and is not a failure."""
    return re.search(NO_DRIVER, mig_report.get("problem", "")) is not None


def has_mig_failed(mig_report: Mapping[str, Any]) -> bool:
    """True if the MIG program reports a problem other than the lack of a GPU that answers."""
    return bool(mig_report.get("problem")) and not is_nvidia_driver_missing(mig_report)


def mig_not_applied_reasons(
    mig_report: Mapping[str, Any], *, is_wanted: bool, is_busy: bool, state: str, waits_for: str
) -> dict[str, str]:
    """Return why the declared MIG geometry is not in force; ``waits_for`` is the restart that the driver needs."""
    reasons = {}
    if is_wanted and waits_for:
        reasons["mig"] = f"created at the next boot; {waits_for}"
    if is_wanted and is_busy:
        reasons["mig"] = f"a job may run here: the node is {state}"
    if is_wanted and is_nvidia_driver_missing(mig_report):
        reasons["mig"] = mig_report["problem"]
    if needs := mig_report.get("needs"):
        reasons["restart"] = "; ".join(needs)
    return reasons


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "nvidia_devices": pci_device_ids,
            "nvidia_mig_command": mig_apply_command,
            "nvidia_mig_has_failed": has_mig_failed,
            "nvidia_mig_not_applied": mig_not_applied_reasons,
        }
