# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Package sources, packages, rollback and reports of NVIDIA's driver, from a driver plan. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypedDict

from ansible_collections.gpufleet.fleet.plugins.filter.driver_plan import (
    is_driver_managed_elsewhere,
    needs_driver_packages,
)
from ansible_collections.gpufleet.fleet.plugins.filter.nvidia_fabric_manager import is_imex_planned
from ansible_collections.gpufleet.fleet.plugins.module_utils.driver_restart import START_ACTIONS
from ansible_collections.gpufleet.fleet.plugins.plugin_utils.role_data import (
    PlannedPackage,
    format_package_specs,
    managed_file_text,
)

PINNING = "nvidia-driver-pinning-"
INSTALLING_ACTIONS = ("install", "upgrade", "downgrade")
# Only dpkg leaves packages half installed, so this is always apt.
APT_REPAIR = (
    *("apt-get", "-y", "-q", "--allow-downgrades", "--allow-change-held-packages"),
    *("--no-install-recommends", "install"),
)


class DriverPackagesToInstall(TypedDict):
    """What the role installs. Pins come first and alone: apt reads its preferences before it looks for dependencies."""

    pins: list[str]
    other_pins: list[str]
    changes_pins: bool
    present: list[str]
    held: list[str]


class SavedDriverSet(TypedDict):
    """A driver set that the host had: versions by name, and the names that were held."""

    packages: dict[str, str]
    held: list[str]


class DriverRollback(TypedDict):
    """What returns a host to its saved driver set."""

    packages: list[PlannedPackage]
    names: list[str]
    present: list[str]
    absent: list[str]
    held: list[str]
    unheld: list[str]
    repair_command: list[str]


def is_missing_kernel_headers(driver_plan: Mapping[str, Any], *, state: Mapping[str, Any]) -> bool:
    """True if a module must be built, and neither the host nor the plan has headers of the running kernel.

    A container's kernel is its host's: nothing is built there. Neither is a driver that an image brought.
    """
    has_headers = bool(state["headers"] or driver_plan.get("headers"))
    builds_module = driver_plan["action"] not in ("none", "refuse") and not is_driver_managed_elsewhere(
        driver_plan
    )
    return builds_module and state["container"] is None and not has_headers


def missing_driver_version_reason(driver_plan: Mapping[str, Any]) -> str:
    """Return why the plan's packages cannot be installed exactly; empty if the plan has the driver's version."""
    if driver_plan["action"] not in INSTALLING_ACTIONS or driver_plan.get("version"):
        return ""
    names = [
        package["name"] for package in driver_plan["packages"] if not package["name"].startswith(PINNING)
    ]
    archives = ", ".join(repository["uri"] for repository in driver_plan.get("repositories") or [])
    return (
        f"this host's package lists have no {names[0] if names else 'driver'} of branch {driver_plan['branch']};"
        f" nothing was installed. See that apt-get update (dnf makecache) reaches {archives or 'its archive'},"
        " or request another branch"
    )


def driver_packages_to_install(
    driver_plan: Mapping[str, Any], *, state: Mapping[str, Any]
) -> DriverPackagesToInstall:
    """Return the packages of a plan on a host in this state.

    No headers fit a container, which has its host's kernel. The roles of fabric manager and GPUDirect hold theirs.
    """
    # A newer kernel without the driver's module must not come alone; the role os_upgrade changes both together.
    kernel_packages = [name for name in state.get("kernel_packages") or [] if name.startswith("linux-")]
    headers = driver_plan.get("headers", []) if state["container"] is None else []
    pins = [package["name"] for package in driver_plan["packages"] if package["name"].startswith(PINNING)]
    wanted_pins = {*pins, f"{PINNING}{driver_plan['branch']}"}
    other_pins = [name for name in state["packages"] if name.startswith(PINNING) and name not in wanted_pins]
    others = {
        package["name"]
        for package in [
            *((driver_plan.get("fabric_manager") or {}).get("packages") or []),
            *(driver_plan.get("gpudirect") or []),
        ]
    }
    return {
        "pins": pins,
        "other_pins": other_pins,
        "changes_pins": bool(pins or other_pins),
        "present": [*headers, *format_package_specs(driver_plan["packages"])],
        "held": [
            *(name for name in driver_plan.get("holds") or [] if name not in others),
            *kernel_packages,
        ],
    }


def nvidia_modprobe_config(
    driver_plan: Mapping[str, Any], *, modules: Iterable[str], options: Mapping[str, Any]
) -> str:
    """Return the module settings: nouveau would take the card before the driver can, also in the initramfs."""
    lines = []
    for name in driver_plan.get("blacklist") or []:
        lines += [f"blacklist {name}", f"options {name} modeset=0"]
    # IMEX needs a channel, which the driver does not create by default (Azure/azhpc-images, read 2026-11-23).
    if is_imex_planned(driver_plan):
        options = {"NVreg_CreateImexChannel0": 1, **options}
    if options:
        ordered = sorted(options.items(), key=lambda option: option[0].lower())
        joined = " ".join(f"{name}={value}" for name, value in ordered)
        lines += [f"options {module} {joined}" for module in modules]
    return managed_file_text(lines)


def is_driver_installation_skipped(
    driver_plan: Mapping[str, Any], *, before: Mapping[str, Any], install_again: bool
) -> bool:
    """True if a rollback left exactly the planned versions: the next run does not install them, unless ``again``."""
    versions = {version for package in driver_plan["packages"] if (version := package.get("version"))}
    return not install_again and bool(versions) and versions <= set(before["rolled_back_from"].values())


def plan_driver_rollback(saved_set: SavedDriverSet, *, state: Mapping[str, Any]) -> DriverRollback:
    """Return the changes from the host's state to a saved driver set."""
    versions = saved_set["packages"]
    present = [f"{name}={versions[name]}" for name in sorted(versions, key=str.lower)]
    return {
        "packages": [{"name": name, "version": version} for name, version in versions.items()],
        "names": list(versions),
        "present": present,
        "absent": [name for name in state["packages"] if name not in versions],
        "held": saved_set["held"],
        "unheld": [name for name in state["held"] if name not in saved_set["held"]],
        "repair_command": [*APT_REPAIR, *present],
    }


def package_repair_command(previous_packages: Mapping[str, list[str]]) -> list[str]:
    """Return the command that completes or removes half-installed packages; a minus after a name removes it."""
    return [*APT_REPAIR, *previous_packages["present"], *(f"{name}-" for name in previous_packages["absent"])]


def driver_not_applied_reasons(
    driver_plan: Mapping[str, Any],
    *,
    before: Mapping[str, Any],
    install_again: bool,
    signing: Mapping[str, Any],
) -> dict[str, str]:
    """Return what the host cannot have of its driver, each with its reason; ``before`` is empty if nothing was read."""
    reasons = {}
    if needs_driver_packages(driver_plan):
        state = before["state"]
        if is_driver_installation_skipped(driver_plan, before=before, install_again=install_again):
            reasons["rolled_back"] = (
                f"a rollback left {driver_plan['version']}; nvidia_driver_again=true installs it"
            )
        if state["container"] is not None:
            reasons["module"] = (
                f"a container runs the kernel of its host ({state['kernel']}):"
                " no headers are installed, no module is built or loaded"
            )
    if message := signing.get("not_applied"):
        reasons["signing"] = message
    return reasons


def image_driver_problem(state: Mapping[str, Any], *, plan: Mapping[str, Any]) -> str:
    """Return why the driver that an image brought does not work; empty if it does, or if a restart may help."""
    if not is_driver_managed_elsewhere(plan) or state["container"] is not None:
        return ""
    decision = state["decision"]
    if decision["action"] == "blocked":
        problem = decision["reason"]
    elif decision["action"] in START_ACTIONS and state["smi"]["message"]:
        problem = f"nvidia-smi: {state['smi']['message']}"
    else:
        return ""
    return (
        f"the driver that came with this host's image does not work: {problem}. gpufleet does not change it: repair the"
        " image, or remove its driver and run this again"
    )


def driver_restore_message(restore_result: Mapping[str, Any], *, previous_version: str) -> str:
    """Return how the return to the previous driver went after a failed installation."""
    if restore_result.get("failed"):
        return f"going back failed too: {restore_result.get('msg', 'no reason given')}"
    if previous_version:
        return f"driver {previous_version} is back as it was"
    return "what it had brought was removed again"


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "nvidia_is_without_headers": is_missing_kernel_headers,
            "nvidia_missing_version": missing_driver_version_reason,
            "nvidia_driver_packages": driver_packages_to_install,
            "nvidia_modprobe": nvidia_modprobe_config,
            "nvidia_is_skipped": is_driver_installation_skipped,
            "nvidia_rollback": plan_driver_rollback,
            "nvidia_driver_problem": image_driver_problem,
            "nvidia_repair_command": package_repair_command,
            "nvidia_driver_not_applied": driver_not_applied_reasons,
            "nvidia_restore_message": driver_restore_message,
        }
