# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which kernel arguments are not in force, and why. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def kernel_arguments_not_applied(set_result: Mapping[str, Any]) -> dict[str, str]:
    """Return each inactive argument with what it waits for; empty if the task did not run."""
    inactive = dict.fromkeys(set_result.get("inactive") or [], "in the boot loader; in force after a restart")
    return {**inactive, **(set_result.get("not_applied") or {})}


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"kernel_arguments_not_applied": kernel_arguments_not_applied}
