# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Set power limits, clocks and modes of the host's GPUs."""

from __future__ import annotations

DOCUMENTATION = """
module: gpu_settings
short_description: Set power limits, clocks and modes of the host's GPUs
description:
  - Compares every value with what each card reports (power range, supported clocks) before it sets one. If a card
    cannot have a value, nothing is set, and the module fails with the cards, the value and the range.
  - A setting that a card does not have, such as the power limit of a virtual GPU, is returned in I(unsupported).
  - A setting that an earlier run of this boot made and that is no longer declared returns to the card's default. The
    ECC mode has no default and stays.
  - nvidia-smi reports no locked clocks. The module sets them each time, and reports a change if the last run of this
    boot set others.
options:
  vendor:
    description: Vendor of the GPUs. C(auto) is NVIDIA if the host has nvidia-smi, else AMD.
    type: str
    choices: [auto, nvidia, amd]
    default: auto
  settings:
    description: Settings to have. A later entry replaces the values of an earlier one.
    type: list
    elements: dict
    required: true
    suboptions:
      devices:
        description: Indexes of the GPUs, in the order of nvidia-smi or, for AMD, of their PCI addresses; default all.
        type: list
        elements: int
      power_limit:
        description: Power limit in watts (C(nvidia-smi -pl); C(power1_cap) of amdgpu).
        type: int
      graphics_clocks:
        description: Least and greatest graphics clock in MHz, or one value for both (C(nvidia-smi -lgc)).
        type: list
        elements: int
      memory_clocks:
        description: Least and greatest memory clock in MHz, or one value for both (C(nvidia-smi -lmc)).
        type: list
        elements: int
      application_clocks:
        description: Memory and graphics clock in MHz for applications (C(nvidia-smi -ac)); newer drivers have none.
        type: list
        elements: int
      compute_mode:
        description: Who may compute on an NVIDIA GPU (C(nvidia-smi -c)).
        type: str
        choices: [default, exclusive_process, prohibited]
      ecc:
        description: Whether an NVIDIA GPU corrects errors of its memory (C(nvidia-smi -e)); changes with a restart.
        type: bool
      performance_level:
        description: How an AMD GPU selects its clocks (C(power_dpm_force_performance_level) of amdgpu).
        type: str
        choices: [auto, low, high, profile_standard, profile_min_sclk, profile_min_mclk, profile_peak]
  validate_only:
    description: Check the values and change nothing.
    type: bool
    default: false
extends_documentation_fragment: [gpufleet.fleet.common]
"""

EXAMPLES = """
- name: Limit all GPUs to 300 W
  gpufleet.fleet.gpu_settings:
    settings: [{power_limit: 300, graphics_clocks: [210, 1410]}]
"""

RETURN = """
changes: {description: "GPU, setting, value before and after.", returned: always, type: list, elements: dict}
config: {description: The settings for the program that applies them at each boot., returned: always, type: dict}
needs: {description: What changes with a restart only., returned: always, type: list, elements: str}
unsupported: {description: Settings that cards do not have., returned: always, type: list, elements: str}
problem: {description: Why no GPU answers., returned: always, type: str}
container: {description: Whether the host is a container., returned: always, type: bool}
is_installed: {description: Whether an earlier run left a configuration., returned: always, type: bool}
"""

import shutil  # noqa: E402 - Ansible wants its documentation above the imports
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402

from ansible_collections.gpufleet.fleet.plugins.module_utils.gpu_cards import (  # noqa: E402
    GpuSettingsError,
    NoAnswerError,
)
from ansible_collections.gpufleet.fleet.plugins.module_utils.gpu_settings import apply_settings  # noqa: E402

CONFIG = Path("/etc/gpufleet/gpu_settings.json")
CONTAINER = Path("/run/systemd/container")
CLOCKS = {"type": "list", "elements": "int"}
LEVELS = ["auto", "low", "high", "profile_standard", "profile_min_sclk", "profile_min_mclk", "profile_peak"]
SPEC: dict[str, Any] = {
    "vendor": {"type": "str", "choices": ["auto", "nvidia", "amd"], "default": "auto"},
    "validate_only": {"type": "bool", "default": False},
    "settings": {
        "type": "list",
        "elements": "dict",
        "required": True,
        "options": {
            "devices": {"type": "list", "elements": "int"},
            "power_limit": {"type": "int"},
            "graphics_clocks": CLOCKS,
            "memory_clocks": CLOCKS,
            "application_clocks": CLOCKS,
            "compute_mode": {"type": "str", "choices": ["default", "exclusive_process", "prohibited"]},
            "ecc": {"type": "bool"},
            "performance_level": {"type": "str", "choices": LEVELS},
        },
    },
}


def normalize_settings(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the declared values alone, each clock range as two values; raise if one has another number of values."""
    normalized = []
    for row in rows:
        values = {key: value for key, value in row.items() if value is not None}
        for key in ("graphics_clocks", "memory_clocks"):
            if len(values.get(key, ())) == 1:
                values[key] = values[key] * 2
        for key in ("graphics_clocks", "memory_clocks", "application_clocks"):
            if key in values and len(values[key]) != 2:  # noqa: PLR2004 - a pair
                raise GpuSettingsError(f"{key} has {len(values[key])} values: must be two, in MHz")
        normalized.append(values)
    return normalized


def set_gpu_settings(module: AnsibleModule) -> dict[str, Any]:
    """Apply or check the settings; return the module's result."""
    rows = normalize_settings(module.params["settings"])
    vendor = module.params["vendor"]
    if vendor == "auto":
        vendor = "nvidia" if shutil.which("nvidia-smi") else "amd"
    result: dict[str, Any] = {
        "changed": False,
        "changes": [],
        "config": {"vendor": vendor, "settings": rows},
        "container": CONTAINER.is_file(),
        "is_installed": CONFIG.is_file(),
        "needs": [],
        "problem": "",
        "unsupported": [],
    }
    if not rows and not result["is_installed"]:
        return result
    is_checked_only = module.check_mode or module.params["validate_only"]
    try:
        result.update(apply_settings(vendor, rows, check_mode=is_checked_only))
    except NoAnswerError as error:
        return {**result, "problem": str(error)}
    texts = {
        side: "".join(f"GPU {row['gpu']} {row['setting']}: {row[side]}\n" for row in result["changes"])
        for side in ("before", "after")
    }
    result["changed"] = result["changed"] and not module.params["validate_only"]
    return {**result, "diff": texts} if result["changes"] else result


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    try:
        module.exit_json(**set_gpu_settings(module))
    except (GpuSettingsError, OSError) as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
