# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""What Ansible's own modules do on hosts with dnf: prerequisites, module streams, packages, version locks. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible.errors import AnsibleActionFail

DNF = "ansible.builtin.dnf"
CONFIG_MANAGER_PACKAGE = "dnf-command(config-manager)"
# EPEL, Getting Started: its package is in the extras of these systems; others install it from its address.
EPEL_PACKAGED_ON = ("rocky", "almalinux", "centos")
EPEL_ADDRESS = "https://dl.fedoraproject.org/pub/epel"
# Published by Fedora (fedoraproject.org/security) and pinned by Docker's official MariaDB image; read 2026-11-22.
EPEL_FINGERPRINTS = {
    "9": "FF8AD1344597106ECE813B918A3872BF3228467C",
    "10": "7D8D15CBFC4E62688591FB2633D98517E37ED158",
}
# RHEL with a subscription and in clouds (RHUI), Rocky, AlmaLinux and CentOS, Oracle.
BUILDER_REPOSITORY = re.compile(r"crb|codeready-builder-for-rhel-\d+-(?:\S+-)?rpms|ol\d+_codeready_builder")
SUBSCRIBED_BUILDER = re.compile(r"codeready-builder-for-rhel-\d+-(?:x86_64|aarch64)-rpms")
TRANSACTION_LINE = re.compile(r"[A-Z]\w+: (?P<name>\S+)-[^-\s]+-[^-\s]+")


@dataclass(frozen=True)
class DnfHost:
    """What a host with dnf has: os-release, its repositories (True: enabled), its enabled streams by module."""

    os_id: str
    os_version: str
    repositories: Mapping[str, bool]
    streams: Mapping[str, str]

    @property
    def major(self) -> str:
        return self.os_version.partition(".")[0]


@dataclass(frozen=True)
class Step:
    """One call of a builtin module."""

    module: str
    arguments: dict[str, Any]


# NVIDIA Driver Installation Guide, Version locking.
VERSIONLOCK_STEP = Step(DNF, {"name": ["python3-dnf-plugin-versionlock"]})


def run_step(*argv: str) -> Step:
    """Return a step that runs a command."""
    return Step("ansible.builtin.command", {"argv": list(argv)})


def list_prerequisite_steps(prerequisites: Iterable[str], host: DnfHost) -> list[Step]:
    """Return what enables the prerequisites that the host does not have."""
    plan = {"epel": _epel_steps, "crb": _builder_steps, "versionlock": _versionlock_steps}
    return [step for name in prerequisites for step in plan[name](host)]


def _epel_steps(host: DnfHost) -> list[Step]:
    if host.repositories.get("epel"):
        return []
    if host.os_id in EPEL_PACKAGED_ON:
        return [Step(DNF, {"name": ["epel-release"]})]
    fingerprint = EPEL_FINGERPRINTS.get(host.major)
    if fingerprint is None:
        raise AnsibleActionFail(
            f"gpufleet knows no key of EPEL for {host.os_id} {host.os_version}; enable a repository named epel"
        )
    key = f"{EPEL_ADDRESS}/RPM-GPG-KEY-EPEL-{host.major}"
    package = f"{EPEL_ADDRESS}/epel-release-latest-{host.major}.noarch.rpm"
    return [
        Step("ansible.builtin.rpm_key", {"key": key, "fingerprint": fingerprint}),
        Step(DNF, {"name": [package]}),
    ]


def _builder_steps(host: DnfHost) -> list[Step]:
    known = [name for name in host.repositories if BUILDER_REPOSITORY.fullmatch(name)]
    if any(host.repositories[name] for name in known):
        return []
    if not known:
        raise AnsibleActionFail(
            f"{host.os_id} {host.os_version} has no CodeReady Builder repository, which EPEL's packages need: register"
            " the host (subscription-manager register), or add a mirror of it with the name crb"
        )
    if SUBSCRIBED_BUILDER.fullmatch(known[0]):
        return [run_step("subscription-manager", "repos", "--enable", known[0])]
    return [
        Step(DNF, {"name": [CONFIG_MANAGER_PACKAGE]}),
        run_step("dnf", "config-manager", "--set-enabled", known[0]),
    ]


def _versionlock_steps(_host: DnfHost) -> list[Step]:
    return [VERSIONLOCK_STEP]


def list_stream_steps(streams: Iterable[str], host: DnfHost) -> list[Step]:
    """Return what enables module streams (``nvidia-driver:580-open``); another stream of the module is reset first."""
    steps = []
    for stream in streams:
        module, __, name = stream.partition(":")
        enabled = host.streams.get(module)
        if enabled == name:
            continue
        if enabled:
            steps.append(run_step("dnf", "-y", "module", "reset", module))
        steps.append(run_step("dnf", "-y", "module", "enable", stream))
    return steps


def install_step(options: Mapping[str, Any]) -> Step | None:
    """Return the transaction that installs; a package that conflicts is replaced only where removals are requested."""
    if not options.get("present"):
        return None
    arguments = {
        "name": [spec.replace("=", "-", 1) for spec in options["present"]],
        "state": "present",
        "allow_downgrade": options.get("allow_downgrade", False),
        "allowerasing": bool(options.get("absent")),
        "install_weak_deps": options.get("install_recommends", True),
        "lock_timeout": options.get("lock_timeout_seconds", 300),
    }
    return Step(DNF, arguments)


def remove_step(options: Mapping[str, Any]) -> Step | None:
    """Return the transaction that removes what the installation left."""
    if not options.get("absent"):
        return None
    arguments = {
        "name": list(options["absent"]),
        "state": "absent",
        "autoremove": False,
        "lock_timeout": options.get("lock_timeout_seconds", 300),
    }
    return Step(DNF, arguments)


def parse_changed_packages(results: Iterable[str]) -> list[str]:
    """Return the names in the results of ansible.builtin.dnf (``Installed: NAME-VERSION-RELEASE.ARCH``)."""
    matches = (TRANSACTION_LINE.fullmatch(line) for line in results)
    return sorted({match["name"] for match in matches if match})


def explain_dnf_failure(result: Mapping[str, Any]) -> str:
    """Return a failure of a builtin module as one line."""
    texts = [
        str(result.get("msg", "")),
        *map(str, result.get("failures") or []),
        str(result.get("stderr", "")),
    ]
    return "; ".join(" ".join(text.split()) for text in texts if text.strip())
