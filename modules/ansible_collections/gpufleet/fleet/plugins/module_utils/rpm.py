# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Packages of RHEL and its likes: ``rpm -q`` is asked first, dnf only where something differs."""

from __future__ import annotations

import fnmatch
import re
from pathlib import Path

from ansible_collections.gpufleet.fleet.plugins.module_utils.package_model import (
    PackageChanges,
    PackageOptions,
)
from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import (
    HostError,
    first_nonempty_line,
    run_program,
)

QUERY = "%{NAME}\\t%{ARCH}\\t%{EPOCHNUM}\\t%{VERSION}\\t%{RELEASE}\\n"
LOCKS = Path("/etc/dnf/plugins/versionlock.list")  # python3-dnf-plugin-versionlock
FAILURES = [
    (r"No match for argument: (\S+)", "no package {0} in this host's repositories"),
    (r"Unable to find a match: (.+)", "no package {0} in this host's repositories"),
    (r"No space left on device", "no space left on this host"),
]


class RpmPackages:
    """The installed packages with their versions, and the lines of versionlock."""

    def __init__(self, text: str, locked: str = "") -> None:
        self.versions_by_name = {}
        for line in text.splitlines():
            parts = line.split("\t")
            if len(parts) == QUERY.count("%"):
                name, __, epoch, version, release = parts
                prefix = "" if epoch in ("0", "(none)") else f"{epoch}:"
                self.versions_by_name[name] = f"{prefix}{version}-{release}"
        self.locked = [
            line.strip() for line in locked.splitlines() if line.strip() and not line.startswith("#")
        ]

    def installed_version(self, package_name: str) -> str | None:
        return self.versions_by_name.get(package_name)

    def is_package_held(self, package_name: str) -> bool:
        """Return whether a line of versionlock (``name-[epoch:]version-release.arch``) locks the package."""
        return any(
            re.fullmatch(re.escape(package_name) + r"-(?:\d+:)?[^-]+-[^-]+", line) for line in self.locked
        )

    def provides_package(self, package_name: str) -> bool:
        """Return whether an installed package provides the name."""
        return run_program(["rpm", "-q", "--quiet", "--whatprovides", package_name])[0] == 0

    def list_installed_versions(self) -> dict[str, str]:
        return dict(self.versions_by_name)


def read_installed_packages(_options: PackageOptions | None = None) -> RpmPackages:
    """Return the packages in rpm's database."""
    status, out, err = run_program(["rpm", "-qa", "--qf", QUERY])
    if status != 0:
        raise HostError(f"rpm failed: {first_nonempty_line(err, out)}")
    return RpmPackages(out, LOCKS.read_text(encoding="utf-8") if LOCKS.exists() else "")


def repair_interrupted_packages(_options: PackageOptions) -> list[str]:
    """Do nothing: an interrupted rpm transaction leaves nothing for a later call to finish."""
    return []


def dnf_commands(changes: PackageChanges, options: PackageOptions) -> list[list[str]]:
    """Return dnf's command lines: removal first, so that a successor does not conflict."""
    base = ["dnf", "-y", "-q"]
    base += [] if options["install_recommends"] else ["--setopt=install_weak_deps=False"]
    names = [f"{name}-{version}" if version else name for name, version in changes.install]
    argument_lists = [[*base, "remove", *changes.remove]] if changes.remove else []
    if names:
        argument_lists.append([*base, "install", *(["--allowerasing"] if changes.remove else []), *names])
    return argument_lists


def explain_dnf_failure(changes: PackageChanges, out: str, err: str) -> str:
    """Return dnf's failure as one line that names the package and the reason."""
    names = ", ".join([name for name, __ in changes.install] + changes.remove)
    for pattern, message in FAILURES:
        match = re.search(pattern, f"{err}\n{out}")
        if match:
            return f"cannot install {names}: {message.format(*match.groups(default=''))}"
    return f"cannot install {names}: {first_nonempty_line(err, out)}"


def install_and_remove_packages(changes: PackageChanges, options: PackageOptions) -> None:
    """Remove and install; an older requested version is a downgrade and must be allowed."""
    for argv in dnf_commands(changes, options):
        status, out, err = run_program(argv, timeout=options["timeout_seconds"])
        if status != 0:
            raise HostError(explain_dnf_failure(changes, out, err))
    if not options["allow_downgrade"]:
        return
    host = read_installed_packages()
    older = [
        f"{n}-{v}"
        for n, v in changes.install
        if v and not fnmatch.fnmatchcase(host.installed_version(n) or "", v)
    ]
    if older:
        status, out, err = run_program(
            ["dnf", "-y", "-q", "downgrade", *older], timeout=options["timeout_seconds"]
        )
        if status != 0:
            raise HostError(explain_dnf_failure(changes, out, err))


def set_package_holds(package_names: list[str], on: bool) -> None:
    """Hold or unhold packages with dnf's versionlock plugin."""
    status, out, err = run_program(["dnf", "-q", "versionlock", "add" if on else "delete", *package_names])
    if status != 0:
        hint = "; is python3-dnf-plugin-versionlock installed?" if "No such command" in f"{out}{err}" else ""
        raise HostError(
            f"cannot {'hold' if on else 'unhold'} {', '.join(package_names)}: {first_nonempty_line(err, out)}{hint}"
        )
