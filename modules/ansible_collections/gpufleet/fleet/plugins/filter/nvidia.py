# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""The package sources, units and devices of NVIDIA's roles, from a driver plan. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypedDict

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.role_data import (
    PlannedPackage,
    earlier_reasons,
)

CUDA_KEYRING = "/usr/share/keyrings/cuda-archive-keyring.gpg"  # the keyring package brings it
KEY_ENDINGS = (".asc", ".pub", ".key")
NO_DRIVER = r"communicate with the NVIDIA driver|No devices|No such file"


class Source(TypedDict):
    """A repository and its key: the address of a file, or a keyring package in the repository's root."""

    name: str
    uri: str
    suite: str
    components: list[str]
    key_url: str
    key_file: str
    sha256: str
    keyring: str


def sources(repositories: Iterable[Mapping[str, Any]], *, keyring_file: str) -> list[Source]:
    """Return the repositories of a plan; ``keyring_file`` is the pattern of a keyring package's file name."""
    return [_source(repository, keyring_file) for repository in repositories]


def _source(repository: Mapping[str, Any], keyring_file: str) -> Source:
    key = repository.get("key_package") or ""
    is_address = key.startswith(("http://", "https://"))
    ending = ".asc" if key.endswith(KEY_ENDINGS) else ".gpg"
    downloaded = f"/usr/share/keyrings/gpufleet-{repository['name']}{ending}"
    packaged = CUDA_KEYRING if key else ""
    return {
        "name": repository["name"],
        "uri": repository["uri"],
        "suite": repository.get("suite") or "/",
        "components": repository.get("components", []),
        "key_url": key if is_address else "",
        "key_file": keyring_file.replace("{}", key) if key and not is_address else "",
        "sha256": repository.get("key_sha256") or "",
        "keyring": downloaded if is_address else packaged,
    }


def fabric_units(
    names: Iterable[str], *, packages: list[PlannedPackage], start: bool
) -> list[dict[str, Any]]:
    """Return the fabric manager's units, which restart when one of its packages changes."""
    restart_on = [package["name"] for package in packages]
    state = {"state": "started"} if start else {}
    return [{"name": name, "enabled": True, "restart_on": restart_on, **state} for name in names]


def devices(cards: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the PCI device id of every GPU, in the order of the plan's cards, which is that of their addresses."""
    return [card["pci"].rpartition(":")[2] for card in cards for _ in range(card["count"])]


def is_rolled_back(packages: Iterable[PlannedPackage], *, rolled_back: Mapping[str, str]) -> bool:
    """Return whether a rollback left exactly the planned versions, which the next run must not install again."""
    versions = [version for package in packages if (version := package.get("version"))]
    return bool(versions) and set(versions) <= set(rolled_back.values())


def driver_not_applied(
    plan: Mapping[str, Any],
    *,
    is_wanted: bool,
    is_skipped: bool,
    state: Mapping[str, Any],
    signing: Mapping[str, Any],
) -> dict[str, str]:
    """Return what the host cannot have of its driver, each with its reason."""
    reasons = {}
    if is_wanted and is_skipped:
        reasons["rolled_back"] = f"a rollback left {plan['version']}; nvidia_driver_again=true installs it"
    if is_wanted and state["container"] is not None:
        reasons["module"] = (
            f"a container runs the kernel of its host ({state['kernel']}):"
            " no headers are installed, no module is built or loaded"
        )
    if message := signing.get("not_applied"):
        reasons["signing"] = message
    return reasons


def restore_message(restored: Mapping[str, Any], *, previous_version: str) -> str:
    """Return how the return to the previous driver went after a failed installation."""
    if restored.get("failed"):
        return f"going back failed too: {restored.get('msg', 'no reason given')}"
    if previous_version:
        return f"driver {previous_version} is back as it was"
    return "what it had brought was removed again"


def upstream_version(version: str | None) -> str:
    """Return NVIDIA's own version: a package's without epoch and revision."""
    return re.sub(r"^(\d+:)?([0-9.]+).*$", r"\2", version or "")


def conflicting_version(plan: Mapping[str, Any], *, installed: str | None, check_mode: bool) -> str:
    """Return the driver's version if the fabric manager is of another one, else an empty string.

    In check mode a driver that is only planned is not installed yet.
    """
    fabric_manager = upstream_version(plan["fabric_manager"]["packages"][0].get("version"))
    planned = upstream_version(plan.get("version"))
    if fabric_manager != planned:
        return planned
    if check_mode or installed == fabric_manager:
        return ""
    return installed or "(none installed)"


def fabric_not_applied(applied: Mapping[str, Any], *, waits: bool) -> dict[str, Any]:
    """Return what the host cannot have of its fabric manager; ``waits`` is True if it starts with the machine."""
    waiting = {"start": "no module of the driver is loaded: it starts with the machine"} if waits else {}
    return waiting | earlier_reasons(applied)


def is_without_driver(report: Mapping[str, Any]) -> bool:
    """Return whether the MIG program found no GPU that answers, which is reported and is not a failure."""
    return re.search(NO_DRIVER, report.get("problem", "")) is not None


def mig_not_applied(
    report: Mapping[str, Any], *, is_wanted: bool, is_busy: bool, state: str
) -> dict[str, str]:
    """Return why the declared MIG geometry is not in force."""
    reasons = {}
    if is_wanted and is_busy:
        reasons["mig"] = f"a job may run here: the node is {state}"
    if is_wanted and is_without_driver(report):
        reasons["mig"] = report["problem"]
    if needs := report.get("needs"):
        reasons["restart"] = "; ".join(needs)
    return reasons


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "nvidia_sources": sources,
            "nvidia_fabric_units": fabric_units,
            "nvidia_devices": devices,
            "nvidia_is_rolled_back": is_rolled_back,
            "nvidia_driver_not_applied": driver_not_applied,
            "nvidia_restore_message": restore_message,
            "nvidia_upstream_version": upstream_version,
            "nvidia_conflicting_version": conflicting_version,
            "nvidia_fabric_not_applied": fabric_not_applied,
            "nvidia_is_without_driver": is_without_driver,
            "nvidia_mig_not_applied": mig_not_applied,
        }
