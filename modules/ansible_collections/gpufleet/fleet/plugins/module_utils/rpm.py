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
from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import Trouble, first_words, run

QUERY = "%{NAME}\\t%{ARCH}\\t%{EPOCHNUM}\\t%{VERSION}\\t%{RELEASE}\\n"
LOCKS = Path("/etc/dnf/plugins/versionlock.list")  # python3-dnf-plugin-versionlock
FAILURES = [
    (r"No match for argument: (\S+)", "no package {0} in this host's repositories"),
    (r"Unable to find a match: (.+)", "no package {0} in this host's repositories"),
    (r"No space left on device", "no space left on this host"),
]


class Host:
    """What rpm says of each package."""

    def __init__(self, text: str, locked: str = "") -> None:
        self.found = {}
        for line in text.splitlines():
            parts = line.split("\t")
            if len(parts) == QUERY.count("%"):
                name, _, epoch, version, release = parts
                prefix = "" if epoch in ("0", "(none)") else f"{epoch}:"
                self.found[name] = f"{prefix}{version}-{release}"
        self.locked = [
            line.strip() for line in locked.splitlines() if line.strip() and not line.startswith("#")
        ]

    def version(self, name: str) -> str | None:
        return self.found.get(name)

    def is_held(self, name: str) -> bool:
        """Say whether a line of versionlock (``name-[epoch:]version-release.arch``) locks the package."""
        return any(re.fullmatch(re.escape(name) + r"-(?:\d+:)?[^-]+-[^-]+", line) for line in self.locked)

    def provides(self, name: str) -> bool:
        """Say whether an installed package stands in for the name."""
        return run(["rpm", "-q", "--quiet", "--whatprovides", name])[0] == 0

    def versions(self) -> dict[str, str]:
        return dict(self.found)


def look(_wanted: PackageOptions | None = None) -> Host:
    """Return the host as rpm knows it."""
    status, out, err = run(["rpm", "-qa", "--qf", QUERY])
    if status != 0:
        raise Trouble(f"rpm does not answer: {first_words(err, out)}")
    return Host(out, LOCKS.read_text(encoding="utf-8") if LOCKS.exists() else "")


def mend(_wanted: PackageOptions) -> list[str]:
    """Do nothing: rpm's transactions leave no package half-way for a later call to finish."""
    return []


def commands(lacking: PackageChanges, wanted: PackageOptions) -> list[list[str]]:
    """Return dnf's command lines: removal first, so that a successor does not conflict."""
    base = ["dnf", "-y", "-q"]
    base += [] if wanted["install_recommends"] else ["--setopt=install_weak_deps=False"]
    names = [f"{name}-{version}" if version else name for name, version in lacking.install]
    found = [[*base, "remove", *lacking.remove]] if lacking.remove else []
    if names:
        found.append([*base, "install", *(["--allowerasing"] if lacking.remove else []), *names])
    return found


def explain(lacking: PackageChanges, out: str, err: str) -> str:
    """Return dnf's failure as one line that names the package and the reason."""
    names = ", ".join([name for name, _ in lacking.install] + lacking.remove)
    for pattern, words in FAILURES:
        found = re.search(pattern, f"{err}\n{out}")
        if found:
            return f"cannot install {names}: {words.format(*found.groups(default=''))}"
    return f"cannot install {names}: {first_words(err, out)}"


def change(lacking: PackageChanges, wanted: PackageOptions) -> None:
    """Remove and install; an older wanted version is a downgrade and must be allowed."""
    for argv in commands(lacking, wanted):
        status, out, err = run(argv, timeout=wanted["timeout_seconds"])
        if status != 0:
            raise Trouble(explain(lacking, out, err))
    if not wanted["allow_downgrade"]:
        return
    host = look()
    older = [
        f"{n}-{v}" for n, v in lacking.install if v and not fnmatch.fnmatchcase(host.version(n) or "", v)
    ]
    if older:
        status, out, err = run(["dnf", "-y", "-q", "downgrade", *older], timeout=wanted["timeout_seconds"])
        if status != 0:
            raise Trouble(explain(lacking, out, err))


def set_holds(names: list[str], on: bool) -> None:
    """Hold packages or let them go, by dnf's versionlock plugin."""
    status, out, err = run(["dnf", "-q", "versionlock", "add" if on else "delete", *names])
    if status != 0:
        hint = "; is python3-dnf-plugin-versionlock installed?" if "No such command" in f"{out}{err}" else ""
        raise Trouble(
            f"cannot {'hold' if on else 'release'} {', '.join(names)}: {first_words(err, out)}{hint}"
        )
