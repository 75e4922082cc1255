# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: Apache-2.0
"""The locks of dnf's plugin versionlock, and the packages that must be locked together."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

LOCK = re.compile(r"(?P<name>[^!#\s]\S*?)-(?P<version>(?:\d+:)?[^-\s]+-[^-\s]+?)(?:\.\*)?")
# The format of ``rpm -qa`` for parse_installed_versions: the version as a lock has it.
INSTALLED_FORMAT = "%{NAME} %{EPOCHNUM}:%{VERSION}-%{RELEASE}\\n"


def parse_locks(lines: Iterable[str]) -> dict[str, str]:
    """Return version by name in the output of ``dnf versionlock list``; exclusions (``!``) are not locks."""
    matches = (LOCK.fullmatch(line.strip()) for line in lines)
    return {match["name"]: match["version"] for match in matches if match}


def parse_installed_versions(lines: Iterable[str]) -> dict[str, str]:
    """Return version by name in the output of ``rpm -qa`` with INSTALLED_FORMAT."""
    return dict(line.split(" ", 1) for line in lines if " " in line)


def find_packages_of_same_version(names: Collection[str], versions: Mapping[str, str]) -> set[str]:
    """Return the names that are in ``versions``, and every name with exactly the version of one of them.

    A driver's packages need each other at one version. If only one is locked, dnf refuses to upgrade anything on the
    host, because the best candidate of the others cannot be installed.
    """
    locked_versions = {versions[name] for name in names if name in versions}
    return {name for name, version in versions.items() if version in locked_versions}
