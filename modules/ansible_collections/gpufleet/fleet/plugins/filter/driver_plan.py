# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the roles of the play drivers decide alike from a driver plan. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

ACTIONS_WITHOUT_INSTALLATION = ("none", "refuse")


def needs_driver_installation(driver_plan: Mapping[str, Any], *, vendor: str, part: str = "") -> bool:
    """True if a plan of this vendor installs or keeps a driver and, with ``part``, has that part (``cuda``)."""
    if driver_plan["vendor"] != vendor or driver_plan["action"] in ACTIONS_WITHOUT_INSTALLATION:
        return False
    return not part or driver_plan.get(part) is not None


def parse_package_names(package_specs: Iterable[str]) -> list[str]:
    """Return the names of packages, each given as NAME or NAME=VERSION."""
    return [spec.split("=", 1)[0] for spec in package_specs]


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"needs_installation": needs_driver_installation, "package_names": parse_package_names}
