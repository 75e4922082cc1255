# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""The wanted packages of a host against those it has: what differs, and how the package manager changes it."""

from __future__ import annotations

import fnmatch
import shutil
from typing import Any

from ansible_collections.gpufleet.fleet.plugins.module_utils import dpkg, rpm
from ansible_collections.gpufleet.fleet.plugins.module_utils.package_model import (
    InstalledPackages,
    PackageManager,
    PackageOptions,
)
from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import Diff, HostError, diff_entry


def argument_spec() -> dict[str, Any]:
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
            "purge": {"type": "bool", "default": False},
            "cache_valid_seconds": {"type": "int", "default": 3600},
            "lock_timeout_seconds": {"type": "int", "default": 300},
            "timeout_seconds": {"type": "int", "default": 3600},
        },
    }


def parse_package(entry: str) -> tuple[str, str | None]:
    """Return name and version (or None) of ``name=version``."""
    name, equals, version = entry.partition("=")
    if not name or (equals and not version):
        raise HostError(f"{entry}: a package is NAME or NAME=VERSION")
    return name, version or None


def package_manager() -> PackageManager:
    """Return the module that speaks with this host's package manager."""
    if dpkg.STATUS.exists():
        return dpkg
    if shutil.which("rpm"):
        return rpm
    raise HostError("this host has neither dpkg nor rpm")


class Difference:
    """What is missing, too many, held or not held; empty when the host is as wanted."""

    def __init__(self, options: PackageOptions, host: InstalledPackages) -> None:
        self.present = [parse_package(entry) for entry in options["present"]]
        names = {name for name, _ in self.present}
        both = sorted(names & set(options["absent"])) or sorted(set(options["held"]) & set(options["unheld"]))
        if both:
            raise HostError(f"{both[0]} is listed both as wanted and as unwanted")
        self.install = [
            (name, version) for name, version in self.present if not is_satisfied(host, name, version)
        ]
        self.remove = [name for name in options["absent"] if host.version(name) is not None]
        self.hold = [name for name in options["held"] if not host.is_held(name)]
        self.unhold = [name for name in options["unheld"] if host.is_held(name)]
        self.change = [name for name, _ in self.install] + self.remove
        # The task's own holds are lifted for the change and set again; any other hold is respected.
        self.lift = [name for name in self.change if host.is_held(name) and name in options["held"]]
        self.foreign = [
            name
            for name in self.change
            if host.is_held(name) and name not in [*options["held"], *options["unheld"]]
        ]

    def __bool__(self) -> bool:
        return bool(self.install or self.remove or self.hold or self.unhold)


def is_satisfied(host: InstalledPackages, name: str, version: str | None) -> bool:
    """Return whether the host has the package, in the wanted version where one is asked for."""
    installed = host.version(name)
    if version is None:
        return installed is not None or host.provides(name)
    return installed is not None and fnmatch.fnmatchcase(installed, version)


def package_spec(name: str, version: str | None) -> str:
    """Return a package as apt writes it."""
    return f"{name}={version}" if version else name


def changed_packages(before: dict[str, str], after: dict[str, str]) -> tuple[list[str], Diff]:
    """Return names whose version changed and the diff that says so."""
    changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    left, right = (
        "".join(f"{name} {side[name]}\n" for name in changed if name in side) for side in (before, after)
    )
    return changed, diff_entry("packages", left, right)


def preview_changes(changes: Difference, host: InstalledPackages) -> tuple[list[str], Diff]:
    """Return what a run would do; nothing is asked of the network."""
    after = dict(host.versions())
    after.update({name: version or "(newest)" for name, version in changes.install})
    for name in changes.remove:
        after.pop(name, None)
    return changed_packages(host.versions(), after)


def apply(options: PackageOptions, check_mode: bool) -> dict[str, Any]:
    """Bring the packages to what is wanted; return changed, changed_packages, repaired and diff."""
    manager = package_manager()
    repaired = [] if check_mode else manager.repair(options)
    host = manager.read_host(options)
    lacking = Difference(options, host)
    result = {
        "changed": bool(lacking or repaired),
        "changed_packages": [],
        "repaired": repaired,
        "diff": None,
    }
    if not lacking:
        return result
    if lacking.foreign:
        name = lacking.foreign[0]
        raise HostError(f"{name} is held on this host, not by this task: list it under unheld or held")
    if check_mode:
        result["changed_packages"], result["diff"] = preview_changes(lacking, host)
        return result
    after = host
    try:
        if lacking.unhold or lacking.lift:
            manager.set_holds(lacking.unhold + lacking.lift, on=False)
        if lacking.change:
            manager.change(lacking, options)
    finally:
        if lacking.hold or lacking.lift:
            manager.set_holds(lacking.hold + lacking.lift, on=True)
    after = manager.read_host(options)
    result["changed_packages"], result["diff"] = changed_packages(host.versions(), after.versions())
    verify_packages(options, after)
    return result


def verify_packages(options: PackageOptions, host: InstalledPackages) -> None:
    """Raise if the package manager reported success and the host differs."""
    left = Difference(options, host)
    if left.install:
        name, version = left.install[0]
        has = host.version(name) or "nothing"
        raise HostError(
            f"{package_spec(name, version)} was installed without complaint, but the host has {has}"
        )
    if left.remove:
        raise HostError(f"{left.remove[0]} was removed without complaint, but the host still has it")
