# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the role efa reports. Pure: reads no host and changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def efa_not_applied_reasons(script_values: Mapping[str, str], *, check_mode: bool) -> dict[str, str]:
    """Return what is missing on a host that should have EFA interfaces, each with its reason."""
    cards, usable = int(script_values.get("cards", 0)), int(script_values.get("interfaces", 0))
    has_tool = "fi_info" in script_values
    problems = {}
    if not cards:
        problems["interfaces"] = "this machine has no EFA interface (PCI 1d0f:efa…)"
    elif has_tool and usable < cards:
        message = script_values.get("message", "see fi_info -p efa")
        problems["interfaces"] = f"{usable} of {cards} EFA interfaces answer: {message}"
    if cards and script_values.get("module", "none") == "none":
        problems["module"] = "the kernel module efa is not loaded"
    if not has_tool and not check_mode:
        problems["fi_info"] = "fi_info is not installed, so libfabric was not checked"
    return problems


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"efa_not_applied": efa_not_applied_reasons}
