# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the roles of the play drivers decide alike from a driver plan. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

ACTIONS_WITHOUT_INSTALLATION = ("none", "refuse")
PACKAGE_ORIGINS = ("vendor", "distribution")
UNSET = ("", "auto", None)


def needs_driver_installation(driver_plan: Mapping[str, Any], *, vendor: str, part: str = "") -> bool:
    """True if a plan of this vendor installs or keeps a driver and, with ``part``, has that part (``cuda``)."""
    if driver_plan.get("vendor") != vendor or driver_plan["action"] in ACTIONS_WITHOUT_INSTALLATION:
        return False
    return not part or driver_plan.get(part) is not None


def is_driver_managed_elsewhere(driver_plan: Mapping[str, Any]) -> bool:
    """True if the plan keeps a driver that no package of this host installed: an image or a runfile brought it."""
    return driver_plan.get("action") == "keep" and driver_plan.get("origin") not in PACKAGE_ORIGINS


def needs_driver_packages(driver_plan: Mapping[str, Any], *, part: str = "") -> bool:
    """True if gpufleet manages the packages of NVIDIA's driver on the host and, with ``part``, that part."""
    return needs_driver_installation(
        driver_plan, vendor="nvidia", part=part
    ) and not is_driver_managed_elsewhere(driver_plan)


def requested_nvidia_software(
    software: Mapping[str, Any], *, driver: Mapping[str, Any], cuda: str, mig: Any
) -> dict[str, Any]:
    """Return the software to plan for a role that makes its own plan; the roles' variables override the template's."""
    settings = {key: str(value) for key, value in driver.items() if value not in UNSET}
    template_driver = software.get("driver") or {}
    requested = {**software, "driver": {**template_driver, **settings, "vendor": "nvidia"}}
    requested.update({"origin": settings["origin"]} if "origin" in settings else {})
    requested.update({"cuda": str(cuda)} if cuda not in UNSET else {})
    requested.update({"mig": mig} if mig is not None else {})
    return requested


def parse_package_names(package_specs: Iterable[str]) -> list[str]:
    """Return the names of packages, each given as NAME or NAME=VERSION."""
    return [spec.split("=", 1)[0] for spec in package_specs]


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "needs_installation": needs_driver_installation,
            "needs_driver_packages": needs_driver_packages,
            "requested_nvidia_software": requested_nvidia_software,
            "package_names": parse_package_names,
        }
