# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Packages, paths and login profile of a CUDA toolkit, from a driver plan. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypedDict

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.role_data import (
    format_package_specs,
    managed_file_text,
)

# NVIDIA's packages that bring nvcc. A distribution's own toolkit has it on another path.
COMPILER_PACKAGE = re.compile(r"cuda-(toolkit|nvcc|compiler)-")


class CudaToolkitInstallation(TypedDict):
    """What the role cuda installs, and where that is."""

    present: list[str]
    absent: list[str]
    prefix: str
    has_compiler: bool
    profile: str


def plan_cuda_installation(
    driver_plan: Mapping[str, Any], *, removed: Iterable[str]
) -> CudaToolkitInstallation:
    """Return the toolkit of a plan; ``removed`` are versions of others that leave the host, such as 12.4."""
    cuda = driver_plan["cuda"]
    compat_packages = cuda.get("compat") or []
    present = format_package_specs([*cuda["packages"], *compat_packages])
    prefix = f"/usr/local/cuda-{cuda['version']}"
    return {
        "present": present,
        "absent": [f"cuda-toolkit-{version.replace('.', '-')}" for version in removed],
        "prefix": prefix,
        "has_compiler": any(COMPILER_PACKAGE.match(spec) for spec in present),
        "profile": _profile(prefix, needs_compat=bool(compat_packages)),
    }


def _profile(prefix: str, *, needs_compat: bool) -> str:
    lines = [f"export PATH={prefix}/bin:$PATH"]
    if needs_compat:
        lines += [
            "# An older driver runs this CUDA through its compatibility libraries.",
            f"export LD_LIBRARY_PATH={prefix}/compat${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}",
        ]
    return managed_file_text(lines)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"cuda_toolkit": plan_cuda_installation}
