# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which of the supported systems a host has. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError


def find_supported_system_name(facts: Mapping[str, Any], *, supported: Mapping[str, str]) -> str:
    """Return the system's entry in the table, by its whole version or the part before the dot.

    Raise AnsibleFilterError if the table has neither.
    """
    # Raspberry Pi OS calls itself Debian; its variant tells it apart.
    system = facts.get("os_variant") or facts.get("os") or "an unknown system"
    version = str(facts.get("os_version") or "")
    for known_version in (version, version.split(".", maxsplit=1)[0]):
        if name := supported.get(f"{system}-{known_version}"):
            return name
    raise AnsibleFilterError(
        f"gpufleet does not support {system} {version}".rstrip() + f"; it supports {', '.join(supported)}"
    )


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"system_name": find_supported_system_name}
