# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Packages of Debian and Ubuntu: dpkg's own record is read first, apt is asked only where something differs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TypedDict

from ansible_collections.gpufleet.fleet.plugins.module_utils import apt_words, locks
from ansible_collections.gpufleet.fleet.plugins.module_utils.package_model import (
    FetchOptions,
    PackageChanges,
    PackageOptions,
)
from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import Trouble, first_words, run

STATUS = Path("/var/lib/dpkg/status")
JOURNAL = Path("/var/lib/dpkg/updates")
LISTS = Path("/var/lib/apt/lists")
SOURCES = Path("/etc/apt")
# Between unpacked and configured: what an interrupted dpkg leaves behind.
HALF_WAY = ("half-installed", "unpacked", "half-configured", "triggers-awaited", "triggers-pending")

# For the environment of dpkg and apt: nobody is there to answer a question.
QUIET = {"DEBIAN_FRONTEND": "noninteractive"}


class Stanza(TypedDict):
    """One package in dpkg's status file."""

    name: str
    architecture: str | None
    want: str
    state: str
    version: str | None
    provides: list[str]


class Host:
    """What dpkg says of each package: desired state, state, version, what it provides."""

    def __init__(self, text: str) -> None:
        self.found, self.text = {}, text
        native = None
        for stanza in text.split("\n\n"):
            row = fields(stanza)
            if row:
                native = row["architecture"] if row["name"] == "dpkg" else native
                self.found[row["name"], row["architecture"]] = row
        self.native = ("all", native)

    def row(self, name: str) -> Stanza | None:
        """Return what is known of ``name`` or ``name:architecture``."""
        plain, _, architecture = name.partition(":")
        wanted = (architecture,) if architecture else self.native
        rows = [self.found[plain, each] for each in wanted if (plain, each) in self.found]
        return next((row for row in rows if row["state"] != "not-installed"), rows[0] if rows else None)

    def version(self, name: str) -> str | None:
        row = self.row(name)
        return row["version"] if row and row["state"] == "installed" else None

    def is_held(self, name: str) -> bool:
        row = self.row(name)
        return bool(row and row["want"] == "hold")

    def provides(self, name: str) -> bool:
        """Say whether an installed package stands in for the name."""
        return any(name in row["provides"] and row["state"] == "installed" for row in self.found.values())

    def versions(self) -> dict[str, str]:
        rows = (row for row in self.found.values() if row["state"] == "installed")
        return {self.label(row): row["version"] or "" for row in rows}

    def half_way(self) -> list[str]:
        """Name the packages that an interrupted dpkg left, with their state."""
        rows = (row for row in self.found.values() if row["state"] in HALF_WAY)
        return sorted(f"{self.label(row)} is {row['state']}" for row in rows)

    def label(self, row: Stanza) -> str:
        """Return a package's name, with its architecture where that is not the host's own."""
        foreign = row["architecture"] not in (None, *self.native)
        return f"{row['name']}:{row['architecture']}" if foreign else row["name"]


def fields(stanza: str) -> Stanza | None:
    """Return the few fields of one stanza that count."""
    found = {}
    for line in stanza.split("\n"):
        if line.startswith(("Package: ", "Status: ", "Architecture: ", "Version: ", "Provides: ")):
            key, _, value = line.partition(": ")
            found[key] = value
    if "Package" not in found or "Status" not in found:
        return None
    want, _, state = found["Status"].split(" ")
    provided = [part.split()[0] for part in found.get("Provides", "").split(",") if part.strip()]
    return {
        "name": found["Package"], "architecture": found.get("Architecture"), "want": want, "state": state,
        "version": found.get("Version"), "provides": provided,
    }  # fmt: skip


def look(_wanted: PackageOptions | None = None) -> Host:
    """Return the host as dpkg knows it."""
    return Host(STATUS.read_text(encoding="utf-8", errors="replace"))


def interrupted(host: Host) -> str:
    """Return what an interrupted dpkg left, in words; an empty string where nothing did."""
    if JOURNAL.is_dir() and any(path.name.isdigit() for path in JOURNAL.iterdir()):
        return "dpkg was interrupted"
    return next(iter(host.half_way()), "")


def mend(wanted: PackageOptions) -> list[str]:
    """Finish what an interrupted dpkg began; return what was done. Somebody at work right now is waited for."""
    if not interrupted(look()):
        return []
    locks.wait(wanted["lock_timeout_seconds"])
    left = interrupted(look())
    if not left:
        return []
    configure = ["dpkg", "--force-confdef", "--force-confold", "--configure", "-a"]
    status, out, err = run(configure, timeout=wanted["timeout_seconds"], **QUIET)
    done = ["dpkg --configure -a"]
    if status != 0 or interrupted(look()):
        status, out, err = run(
            [*apt(wanted), "--fix-broken", "install"], timeout=wanted["timeout_seconds"], **QUIET
        )
        done.append("apt-get --fix-broken install")
    if status != 0:
        raise Trouble(f"{left} and could not be mended: {apt_words.reason(out, err)}")
    return [f"{' and '.join(done)}: {left}"]


def apt(wanted: PackageOptions) -> list[str]:
    """Return apt-get's command line as far as it is always the same."""
    lock = f"DPkg::Lock::Timeout={wanted['lock_timeout_seconds']}"
    keep = ["-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold"]
    return ["apt-get", "-y", "-q", "-o", lock, *keep, "-o", "Dpkg::Use-Pty=0"]


def install_command(lacking: PackageChanges, wanted: PackageOptions) -> list[str]:
    """Return apt-get's command line for one transaction that installs and removes."""
    options = ["--allow-downgrades"] if wanted["allow_downgrade"] else []
    options += [] if wanted["install_recommends"] else ["--no-install-recommends"]
    options += ["--purge"] if wanted["purge"] else []
    names = [f"{name}={version}" if version else name for name, version in lacking.install]
    return [*apt(wanted), *options, "install", *names, *[f"{name}-" for name in lacking.remove]]


def stale(wanted: FetchOptions, now: float | None = None) -> bool:
    """Say whether the package lists are too old, or older than what the host's sources say."""
    try:
        lists = LISTS.stat().st_mtime
    except FileNotFoundError:
        return True
    if not any(LISTS.glob("*_Packages*")):
        return True
    sources = [SOURCES / "sources.list", *(SOURCES / "sources.list.d").glob("*"), SOURCES / "sources.list.d"]
    newest = max((path.stat().st_mtime for path in sources if path.exists()), default=0)
    return newest > lists or (now or time.time()) - lists > wanted["cache_valid_seconds"]


def update(wanted: FetchOptions) -> str:
    """Fetch the package lists; return why it failed, or an empty string."""
    argv = ["apt-get", "-q", "-o", "APT::Update::Error-Mode=any", "update"]
    status, out, err = run(argv, timeout=wanted["timeout_seconds"], **QUIET)
    if status == 0:
        LISTS.touch()
        return ""
    return apt_words.reason(out, err)


def change(lacking: PackageChanges, wanted: PackageOptions) -> None:
    """Install and remove in one transaction, waiting for locks; lists are fetched when they are needed."""
    deadline = time.monotonic() + wanted["lock_timeout_seconds"]
    locks.wait(wanted["lock_timeout_seconds"])
    fresh = bool(lacking.install) and stale(wanted)
    trouble = update(wanted) if fresh else ""
    while True:
        status, out, err = run(install_command(lacking, wanted), timeout=wanted["timeout_seconds"], **QUIET)
        if status == 0:
            return
        kind = apt_words.kind(out, err)
        if kind == "lock" and time.monotonic() < deadline:
            time.sleep(1)
            locks.wait(max(deadline - time.monotonic(), 1))
        elif kind in ("unknown", "gone") and not fresh:
            fresh, trouble = True, update(wanted)
        else:
            also = f"; the package lists could not be fetched: {trouble}" if trouble else ""
            raise Trouble(apt_words.explain(lacking, out, err) + also)


def set_holds(names: list[str], on: bool) -> None:
    """Hold packages or let them go."""
    status, out, err = run(["apt-mark", "hold" if on else "unhold", *names])
    if status != 0:
        raise Trouble(f"cannot {'hold' if on else 'release'} {', '.join(names)}: {first_words(err, out)}")
