# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: Apache-2.0
"""Packages of Debian and Ubuntu: dpkg's own record is read first, apt is asked only where something differs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TypedDict

from ansible_collections.gpufleet.fleet.plugins.module_utils import apt_failures, locks
from ansible_collections.gpufleet.fleet.plugins.module_utils.package_model import (
    PackageChanges,
    PackageListOptions,
    PackageOptions,
)
from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import (
    HostError,
    first_nonempty_line,
    run_program,
)

STATUS = Path("/var/lib/dpkg/status")
JOURNAL = Path("/var/lib/dpkg/updates")
LISTS = Path("/var/lib/apt/lists")
SOURCES = Path("/etc/apt")
# Between unpacked and configured: what an interrupted dpkg leaves behind.
HALF_WAY = ("half-installed", "unpacked", "half-configured", "triggers-awaited", "triggers-pending")

# For the environment of dpkg and apt: nobody can answer a prompt.
QUIET = {"DEBIAN_FRONTEND": "noninteractive"}


class DpkgStanza(TypedDict):
    """One package in dpkg's status file."""

    name: str
    architecture: str | None
    want: str
    state: str
    version: str | None
    provides: list[str]


class DpkgPackages:
    """The packages in dpkg's status file: desired state, state, version, provided names."""

    def __init__(self, text: str) -> None:
        self.stanzas: dict[tuple[str, str | None], DpkgStanza] = {}
        self.text = text
        native = None
        for stanza in text.split("\n\n"):
            row = parse_dpkg_stanza(stanza)
            if row:
                native = row["architecture"] if row["name"] == "dpkg" else native
                self.stanzas[row["name"], row["architecture"]] = row
        self.native = ("all", native)

    def find_stanza(self, package_name: str) -> DpkgStanza | None:
        """Return the stanza of ``name`` or ``name:architecture``, or None."""
        plain, __, architecture = package_name.partition(":")
        architectures = (architecture,) if architecture else self.native
        rows = [self.stanzas[plain, each] for each in architectures if (plain, each) in self.stanzas]
        return next((row for row in rows if row["state"] != "not-installed"), rows[0] if rows else None)

    def installed_version(self, package_name: str) -> str | None:
        row = self.find_stanza(package_name)
        return row["version"] if row and row["state"] == "installed" else None

    def is_package_held(self, package_name: str) -> bool:
        row = self.find_stanza(package_name)
        return bool(row and row["want"] == "hold")

    def provides_package(self, package_name: str) -> bool:
        """Return whether an installed package provides the name."""
        return any(
            package_name in row["provides"] and row["state"] == "installed" for row in self.stanzas.values()
        )

    def list_installed_versions(self) -> dict[str, str]:
        rows = (row for row in self.stanzas.values() if row["state"] == "installed")
        return {self.qualified_package_name(row): row["version"] or "" for row in rows}

    def half_installed_packages(self) -> list[str]:
        """Return the packages that an interrupted dpkg left behind, each with its state."""
        rows = (row for row in self.stanzas.values() if row["state"] in HALF_WAY)
        return sorted(f"{self.qualified_package_name(row)} is {row['state']}" for row in rows)

    def qualified_package_name(self, stanza: DpkgStanza) -> str:
        """Return a package's name, with its architecture where that is not the host's own."""
        foreign = stanza["architecture"] not in (None, *self.native)
        return f"{stanza['name']}:{stanza['architecture']}" if foreign else stanza["name"]


def parse_dpkg_stanza(stanza_text: str) -> DpkgStanza | None:
    """Return the fields of a stanza that are used here; None for text that is not a package."""
    values = {}
    for line in stanza_text.split("\n"):
        if line.startswith(("Package: ", "Status: ", "Architecture: ", "Version: ", "Provides: ")):
            key, __, value = line.partition(": ")
            values[key] = value
    if "Package" not in values or "Status" not in values:
        return None
    want, __, state = values["Status"].split(" ")
    provided = [part.split()[0] for part in values.get("Provides", "").split(",") if part.strip()]
    return {
        "name": values["Package"], "architecture": values.get("Architecture"), "want": want, "state": state,
        "version": values.get("Version"), "provides": provided,
    }  # fmt: skip


def read_installed_packages(_options: PackageOptions | None = None) -> DpkgPackages:
    """Return the packages in dpkg's status file."""
    return DpkgPackages(STATUS.read_text(encoding="utf-8", errors="replace"))


def describe_dpkg_interruption(installed_packages: DpkgPackages) -> str:
    """Return what an interrupted dpkg left as one phrase; empty if nothing was interrupted."""
    if JOURNAL.is_dir() and any(path.name.isdigit() for path in JOURNAL.iterdir()):
        return "dpkg was interrupted"
    return next(iter(installed_packages.half_installed_packages()), "")


def repair_interrupted_packages(options: PackageOptions) -> list[str]:
    """Finish an interrupted dpkg run and return what was done; wait for a running package manager first."""
    if not describe_dpkg_interruption(read_installed_packages()):
        return []
    locks.wait_for_package_locks(options["lock_timeout_seconds"])
    interruption = describe_dpkg_interruption(read_installed_packages())
    if not interruption:
        return []
    configure = ["dpkg", "--force-confdef", "--force-confold", "--configure", "-a"]
    status, out, err = run_program(configure, timeout=options["timeout_seconds"], **QUIET)
    done = ["dpkg --configure -a"]
    if status != 0 or describe_dpkg_interruption(read_installed_packages()):
        status, out, err = run_program(
            [*apt_get_base_command(options), "--fix-broken", "install"],
            timeout=options["timeout_seconds"],
            **QUIET,
        )
        done.append("apt-get --fix-broken install")
    if status != 0:
        raise HostError(
            f"{interruption} and could not be repaired: {apt_failures.apt_failure_reason(out, err)}"
        )
    return [f"{' and '.join(done)}: {interruption}"]


def apt_get_base_command(options: PackageOptions) -> list[str]:
    """Return the part of apt-get's command line that never changes."""
    lock = f"DPkg::Lock::Timeout={options['lock_timeout_seconds']}"
    keep = ["-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold"]
    return ["apt-get", "-y", "-q", "-o", lock, *keep, "-o", "Dpkg::Use-Pty=0"]


def apt_install_command(changes: PackageChanges, package_options: PackageOptions) -> list[str]:
    """Return apt-get's command line for one transaction that installs and removes."""
    options = ["--allow-downgrades"] if package_options["allow_downgrade"] else []
    options += [] if package_options["install_recommends"] else ["--no-install-recommends"]
    names = [f"{name}={version}" if version else name for name, version in changes.install]
    return [
        *apt_get_base_command(package_options),
        *options,
        "install",
        *names,
        *[f"{name}-" for name in changes.remove],
    ]


def are_package_lists_stale(options: PackageListOptions, now: float | None = None) -> bool:
    """Return whether the package lists are missing, too old, or older than the host's list of sources."""
    try:
        lists = LISTS.stat().st_mtime
    except FileNotFoundError:
        return True
    if not any(LISTS.glob("*_Packages*")):
        return True
    sources = [SOURCES / "sources.list", *(SOURCES / "sources.list.d").glob("*"), SOURCES / "sources.list.d"]
    newest = max((path.stat().st_mtime for path in sources if path.exists()), default=0)
    return newest > lists or (now or time.time()) - lists > options["cache_valid_seconds"]


def fetch_package_lists(options: PackageListOptions) -> str:
    """Fetch the package lists; return why it failed, or an empty string."""
    argv = ["apt-get", "-q", "-o", "APT::Update::Error-Mode=any", "update"]
    status, out, err = run_program(argv, timeout=options["timeout_seconds"], **QUIET)
    if status == 0:
        LISTS.touch()
        return ""
    return apt_failures.apt_failure_reason(out, err)


def install_and_remove_packages(changes: PackageChanges, options: PackageOptions) -> None:
    """Install and remove in one transaction; wait for locks, and fetch stale package lists first."""
    deadline = time.monotonic() + options["lock_timeout_seconds"]
    locks.wait_for_package_locks(options["lock_timeout_seconds"])
    fresh = bool(changes.install) and are_package_lists_stale(options)
    failure = fetch_package_lists(options) if fresh else ""
    while True:
        status, out, err = run_program(
            apt_install_command(changes, options), timeout=options["timeout_seconds"], **QUIET
        )
        if status == 0:
            return
        kind = apt_failures.classify_apt_failure(out, err)
        if kind == "lock" and time.monotonic() < deadline:
            time.sleep(1)
            locks.wait_for_package_locks(max(deadline - time.monotonic(), 1))
        elif kind in ("unknown", "gone") and not fresh:
            fresh, failure = True, fetch_package_lists(options)
        else:
            also = f"; the package lists could not be fetched: {failure}" if failure else ""
            raise HostError(apt_failures.explain_apt_failure(changes, out, err) + also)


def set_package_holds(package_names: list[str], on: bool) -> None:
    """Hold or unhold packages."""
    status, out, err = run_program(["apt-mark", "hold" if on else "unhold", *package_names])
    if status != 0:
        raise HostError(
            f"cannot {'hold' if on else 'unhold'} {', '.join(package_names)}: {first_nonempty_line(err, out)}"
        )
