# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: Apache-2.0
"""Compare the requested packages with the host's, and let its package manager change what differs."""

from __future__ import annotations

import fnmatch
import shutil
from typing import Any

from ansible_collections.gpufleet.fleet.plugins.module_utils import dpkg
from ansible_collections.gpufleet.fleet.plugins.module_utils.package_model import (
    InstalledPackages,
    PackageOptions,
)
from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import (
    AnsibleDiff,
    HostError,
    build_diff_entry,
)


def package_argument_spec() -> dict[str, Any]:
    """Return the argument specification of the part ``packages``."""
    names = {"type": "list", "elements": "str", "default": []}
    return {
        "type": "dict",
        "options": {
            "present": names,
            "absent": names,
            "held": names,
            "unheld": names,
            "allow_downgrade": {"type": "bool", "default": False},
            "install_recommends": {"type": "bool", "default": True},
            "cache_valid_seconds": {"type": "int", "default": 3600},
            "lock_timeout_seconds": {"type": "int", "default": 300},
            "timeout_seconds": {"type": "int", "default": 3600},
        },
    }


def parse_package_spec(package_spec: str) -> tuple[str, str | None]:
    """Return name and version (or None) of ``name=version``."""
    name, equals, version = package_spec.partition("=")
    if not name or (equals and not version):
        raise HostError(f"{package_spec}: a package is NAME or NAME=VERSION")
    return name, version or None


def find_package_manager_name() -> str:
    """Return ``apt`` or ``dnf``, whichever manages this host's packages."""
    if dpkg.STATUS.exists():
        return "apt"
    if shutil.which("dnf"):
        return "dnf"
    raise HostError("this host has neither apt nor dnf")


class PackageDifference:
    """What to install, remove, hold and unhold; False if the host already has what is requested."""

    def __init__(self, options: PackageOptions, host: InstalledPackages) -> None:
        self.present = [parse_package_spec(entry) for entry in options["present"]]
        names = {name for name, __ in self.present}
        both = sorted(names & set(options["absent"])) or sorted(set(options["held"]) & set(options["unheld"]))
        if both:
            raise HostError(f"{both[0]} is in two lists that exclude each other")
        self.install = [
            (name, version) for name, version in self.present if not is_package_satisfied(host, name, version)
        ]
        self.remove = [name for name in options["absent"] if host.installed_version(name) is not None]
        self.hold = [name for name in options["held"] if not host.is_package_held(name)]
        self.unhold = [name for name in options["unheld"] if host.is_package_held(name)]
        self.changed_names = [name for name, __ in self.install] + self.remove
        # The task's own holds are lifted for the change and set again; any other hold is respected.
        self.lifted_holds = [
            name for name in self.changed_names if host.is_package_held(name) and name in options["held"]
        ]
        self.foreign_holds = [
            name
            for name in self.changed_names
            if host.is_package_held(name) and name not in [*options["held"], *options["unheld"]]
        ]

    def __bool__(self) -> bool:
        return bool(self.install or self.remove or self.hold or self.unhold)


def is_package_satisfied(installed_packages: InstalledPackages, name: str, version: str | None) -> bool:
    """Return whether the host has the package, in the requested version if there is one."""
    installed = installed_packages.installed_version(name)
    if version is None:
        return installed is not None or installed_packages.provides_package(name)
    return installed is not None and fnmatch.fnmatchcase(installed, version)


def format_package_spec(name: str, version: str | None) -> str:
    """Return a package as apt writes it."""
    return f"{name}={version}" if version else name


def compare_package_versions(before: dict[str, str], after: dict[str, str]) -> tuple[list[str], AnsibleDiff]:
    """Return the names of packages whose version changed, and the diff."""
    changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    left, right = (
        "".join(f"{name} {side[name]}\n" for name in changed if name in side) for side in (before, after)
    )
    return changed, build_diff_entry("packages", left, right)


def preview_package_changes(
    changes: PackageDifference, installed_packages: InstalledPackages
) -> tuple[list[str], AnsibleDiff]:
    """Return what a run would change, without use of the network."""
    after = dict(installed_packages.list_installed_versions())
    after.update({name: version or "(newest)" for name, version in changes.install})
    for name in changes.remove:
        after.pop(name, None)
    return compare_package_versions(installed_packages.list_installed_versions(), after)


def apply_package_options(options: PackageOptions, check_mode: bool) -> dict[str, Any]:
    """Install, remove, hold and unhold packages; return changed, changed_packages, repaired and diff."""
    manager = dpkg
    repaired = [] if check_mode else manager.repair_interrupted_packages(options)
    host = manager.read_installed_packages(options)
    difference = PackageDifference(options, host)
    result = {
        "changed": bool(difference or repaired),
        "changed_packages": [],
        "repaired": repaired,
        "diff": None,
    }
    if not difference:
        return result
    if difference.foreign_holds:
        name = difference.foreign_holds[0]
        raise HostError(f"{name} is held on this host, and not by this task: add it to unheld or held")
    if check_mode:
        result["changed_packages"], result["diff"] = preview_package_changes(difference, host)
        return result
    after = host
    try:
        if difference.unhold or difference.lifted_holds:
            manager.set_package_holds(difference.unhold + difference.lifted_holds, on=False)
        if difference.changed_names:
            manager.install_and_remove_packages(difference, options)
    finally:
        if difference.hold or difference.lifted_holds:
            manager.set_package_holds(difference.hold + difference.lifted_holds, on=True)
    after = manager.read_installed_packages(options)
    result["changed_packages"], result["diff"] = compare_package_versions(
        host.list_installed_versions(), after.list_installed_versions()
    )
    verify_packages_applied(options, after)
    return result


def verify_packages_applied(options: PackageOptions, installed_packages: InstalledPackages) -> None:
    """Raise HostError if the package manager reported success and the host differs."""
    remaining = PackageDifference(options, installed_packages)
    if remaining.install:
        name, version = remaining.install[0]
        has = installed_packages.installed_version(name) or "nothing"
        raise HostError(
            f"{format_package_spec(name, version)} was reported as installed, but the host has {has}"
        )
    if remaining.remove:
        raise HostError(f"{remaining.remove[0]} was reported as removed, but the host still has it")
