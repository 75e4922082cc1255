# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""The wanted packages of a host against those it has: what differs, and the family's way to mend it."""

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
from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import Diff, Trouble, difference


def option() -> dict[str, Any]:
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


def split(entry: str) -> tuple[str, str | None]:
    """Return name and version (or None) of ``name=version``."""
    name, equals, version = entry.partition("=")
    if not name or (equals and not version):
        raise Trouble(f"{entry}: a package is NAME or NAME=VERSION")
    return name, version or None


def family() -> PackageManager:
    """Return the module that speaks with this host's package manager."""
    if dpkg.STATUS.exists():
        return dpkg
    if shutil.which("rpm"):
        return rpm
    raise Trouble("this host has neither dpkg nor rpm")


class Difference:
    """What is missing, too many, held or not held; empty when the host is as wanted."""

    def __init__(self, wanted: PackageOptions, host: InstalledPackages) -> None:
        self.present = [split(entry) for entry in wanted["present"]]
        names = {name for name, _ in self.present}
        both = sorted(names & set(wanted["absent"])) or sorted(set(wanted["held"]) & set(wanted["unheld"]))
        if both:
            raise Trouble(f"{both[0]} is wanted both ways")
        self.install = [(name, version) for name, version in self.present if not fits(host, name, version)]
        self.remove = [name for name in wanted["absent"] if host.version(name) is not None]
        self.hold = [name for name in wanted["held"] if not host.is_held(name)]
        self.unhold = [name for name in wanted["unheld"] if host.is_held(name)]
        self.change = [name for name, _ in self.install] + self.remove
        # Holds of ours are lifted for the change and come back; a hold of somebody else's is obeyed.
        self.lift = [name for name in self.change if host.is_held(name) and name in wanted["held"]]
        self.foreign = [
            name
            for name in self.change
            if host.is_held(name) and name not in [*wanted["held"], *wanted["unheld"]]
        ]

    def __bool__(self) -> bool:
        return bool(self.install or self.remove or self.hold or self.unhold)


def fits(host: InstalledPackages, name: str, version: str | None) -> bool:
    """Say whether the host has the package, in the wanted version where one is asked for."""
    found = host.version(name)
    if version is None:
        return found is not None or host.provides(name)
    return found is not None and fnmatch.fnmatchcase(found, version)


def described(name: str, version: str | None) -> str:
    """Return a package as apt writes it."""
    return f"{name}={version}" if version else name


def outcome(before: dict[str, str], after: dict[str, str]) -> tuple[list[str], Diff]:
    """Return names whose version changed and the diff that says so."""
    changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    left, right = (
        "".join(f"{name} {side[name]}\n" for name in changed if name in side) for side in (before, after)
    )
    return changed, difference("packages", left, right)


def trial(lacking: Difference, host: InstalledPackages) -> tuple[list[str], Diff]:
    """Say what a run would do; nothing is asked of the network."""
    after = dict(host.versions())
    after.update({name: version or "(newest)" for name, version in lacking.install})
    for name in lacking.remove:
        after.pop(name, None)
    return outcome(host.versions(), after)


def apply(wanted: PackageOptions, check_mode: bool) -> dict[str, Any]:
    """Bring the packages to what is wanted; return changed, changed_packages, mended and diff."""
    manager = family()
    mended = [] if check_mode else manager.mend(wanted)
    host = manager.look(wanted)
    lacking = Difference(wanted, host)
    result = {"changed": bool(lacking or mended), "changed_packages": [], "mended": mended, "diff": None}
    if not lacking:
        return result
    if lacking.foreign:
        name = lacking.foreign[0]
        raise Trouble(f"{name} is held on this host, not by this task: list it under unheld or held")
    if check_mode:
        result["changed_packages"], result["diff"] = trial(lacking, host)
        return result
    after = host
    try:
        if lacking.unhold or lacking.lift:
            manager.set_holds(lacking.unhold + lacking.lift, on=False)
        if lacking.change:
            manager.change(lacking, wanted)
    finally:
        if lacking.hold or lacking.lift:
            manager.set_holds(lacking.hold + lacking.lift, on=True)
    after = manager.look(wanted)
    result["changed_packages"], result["diff"] = outcome(host.versions(), after.versions())
    confirm(wanted, after)
    return result


def confirm(wanted: PackageOptions, host: InstalledPackages) -> None:
    """Raise where the package manager said that all is well and the host says otherwise."""
    left = Difference(wanted, host)
    if left.install:
        name, version = left.install[0]
        has = host.version(name) or "nothing"
        raise Trouble(f"{described(name, version)} was installed without complaint, but the host has {has}")
    if left.remove:
        raise Trouble(f"{left.remove[0]} was removed without complaint, but the host still has it")
