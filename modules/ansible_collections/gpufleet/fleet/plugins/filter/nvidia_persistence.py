# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""The packages of NVIDIA's persistence daemon, from a driver plan. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def persistence_daemon_packages(
    package_patterns: Mapping[str, list[str]], *, plan: Mapping[str, Any]
) -> list[str]:
    """Return the daemon's packages; ``package_patterns`` lists them by the origin of the driver (vendor, distribution).

    The daemon works with the driver of its own version. A distribution that numbers it differently names none.
    """
    version = plan.get("version") or ""
    return [
        pattern.replace("{branch}", str(plan["branch"])).replace("{version}", version)
        for pattern in package_patterns[plan["origin"]]
    ]


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"nvidia_persistence_packages": persistence_daemon_packages}
