# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: Apache-2.0
"""apt's files for a repository: deb822 source, pin, and older entries of the same repository. Pure text."""

from __future__ import annotations

import re
import shlex
from typing import Any

from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import HEADER

ONE_LINE = re.compile(r"^\s*deb(?:-src)?\s+(?:\[[^\]]*\]\s*)?(\S+)\s+(\S+)")


def deb822_source_text(repository: dict[str, Any], key_path: str) -> str:
    """Return the ``.sources`` file of a repository that only the key in the file may sign."""
    fields = {
        "Types": "deb",
        "URIs": repository["uri"],
        "Suites": repository["suite"] or "/",
        "Components": " ".join(repository["components"]),
        "Architectures": " ".join(repository["architectures"]),
        "Signed-By": key_path,
    }
    return HEADER + "".join(f"{name}: {value}\n" for name, value in fields.items() if value)


def pin_text(pin: dict[str, Any]) -> str:
    """Return the preference file of a repository (apt_preferences(5))."""
    return f"{HEADER}Package: {pin['packages']}\nPin: release {pin['release']}\nPin-Priority: {pin['priority']}\n"


def same_repository(uri: str, suite: str, other_uri: str, other_suite: str, architecture: str) -> bool:
    """True if two entries name one repository: apt refuses them if their keys are in different files."""

    def expand(text: str) -> str:
        return text.replace("$(ARCH)", architecture).rstrip("/")

    return expand(uri) == expand(other_uri) and suite.strip("./") == other_suite.strip("./")


def remove_repository(text: str, is_deb822: bool, uri: str, suite: str, architecture: str) -> str:
    """Return the text of another source file without this repository."""
    if is_deb822:
        return _remove_from_deb822(text, uri, suite, architecture)
    return "".join(
        line for line in text.splitlines(keepends=True) if not _line_names(line, uri, suite, architecture)
    )


def _line_names(line: str, uri: str, suite: str, architecture: str) -> bool:
    match = ONE_LINE.match(line)
    return match is not None and same_repository(uri, suite, match[1], match[2], architecture)


def _remove_from_deb822(text: str, uri: str, suite: str, architecture: str) -> str:
    """Remove stanzas of this repository; of a stanza with several addresses or suites only the pair goes, if it can."""
    stanzas = []
    for stanza in re.split(r"\n(?:[ \t]*\n)+", text.strip("\n")):
        uris, suites = _field(stanza, "URIs"), _field(stanza, "Suites")
        pairs = [
            (address, name)
            for address in uris
            for name in suites
            if same_repository(uri, suite, address, name, architecture)
        ]
        if not pairs:
            stanzas.append(stanza)
        elif len(uris) > 1:
            left = [address for address in uris if address not in {address for address, __ in pairs}]
            stanzas += [_set_field(stanza, "URIs", left)] if left else []
        elif len(suites) > 1:
            left = [name for name in suites if name not in {name for __, name in pairs}]
            stanzas += [_set_field(stanza, "Suites", left)] if left else []
    return "\n\n".join(stanzas) + "\n" if stanzas else ""


def _field(stanza: str, name: str) -> list[str]:
    match = re.search(rf"^{name}:(.*(?:\n[ \t].*)*)", stanza, re.MULTILINE | re.IGNORECASE)
    return shlex.split(match.group(1), comments=True) if match else []


def _set_field(stanza: str, name: str, field_values: list[str]) -> str:
    return re.sub(
        rf"^({name}:).*(?:\n[ \t].*)*",
        rf"\1 {' '.join(field_values)}",
        stanza,
        flags=re.MULTILINE | re.IGNORECASE,
    )


def has_entries(text: str) -> bool:
    """True if a source file still names a repository; comments do not count."""
    return any(line.strip() and not line.lstrip().startswith("#") for line in text.splitlines())
