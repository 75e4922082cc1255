# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Read what a host has of a GPU driver in one call, and remember it before it is replaced."""

from __future__ import annotations

DOCUMENTATION = """
module: driver_state
short_description: Read a host's drivers, and record their packages before they are replaced
description:
  - Returns the driver's installed and held packages; the versions of the loaded module, of the module built for the
    running kernel and of the user-space part; fabric manager, persistence daemon and CUDA toolkits.
  - Decides what NVIDIA's driver needs next (C(state.decision)), by the table in docs/driver-upgrades.md.
  - If I(planned_packages) differs from the installed packages, these are recorded in I(path), so that a rollback knows
    their exact versions. The last five sets are kept.
options:
  planned_packages:
    description: Packages as C({name, version}) that will be installed next. If it is empty, nothing is recorded.
    type: list
    elements: dict
    default: []
  holds: {description: Packages that will be held; a rollback removes those holds., type: list, elements: str,
          default: []}
  reason: {description: Reason to record with the set., type: str, default: ""}
  rolled_back: {description: Whether I(planned_packages) is a rollback., type: bool, default: false}
  load: {description: Whether to load the module if only that is missing., type: bool, default: false}
  restarted:
    description: >-
      Whether the host has just been restarted. If it still needs a restart, that is recorded, and C(state.restart) does
      not ask for another one for the same reason.
    type: bool
    default: false
  certificates:
    description: Paths of the certificate that DKMS signs with; the first that exists is used.
    type: list
    elements: path
    default: [/var/lib/shim-signed/mok/MOK.der, /var/lib/dkms/mok.pub]
  path: {description: File of the recorded sets., type: path, default: /var/lib/gpufleet/drivers.json}
  node: {description: The host's name; with it the state is reported to the registry., type: str, default: ""}
  facts: {description: Facts that are reported with the state., type: dict, default: {}}
extends_documentation_fragment: [gpufleet.fleet.common]
"""

EXAMPLES = """
- name: Read the driver's state
  gpufleet.fleet.driver_state:
    node: "{{ inventory_hostname }}"
"""

RETURN = """
state: {description: Drivers and tools of the host., returned: always, type: dict}
recorded: {description: "Saved package sets, the newest last.", returned: always, type: list, elements: dict}
rolled_back_from: {description: Package versions that the last rollback replaced., returned: always, type: dict}
previous:
  description: >-
    The installed packages as C(name=version), and those of I(planned_packages) that are not installed; a failed install
    returns to them.
  returned: always
  type: dict
gpufleet: {description: The report for the registry., returned: when I(node) is given, type: dict}
"""

import os  # noqa: E402 - Ansible wants its documentation above the imports
import re  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402

from ansible_collections.gpufleet.fleet.plugins.module_utils import driver_restart, mokutil  # noqa: E402
from ansible_collections.gpufleet.fleet.plugins.module_utils.driver_history import (  # noqa: E402
    DriverHistory,
    plan_package_rollback,
    read_driver_history,
    update_driver_history,
    update_restart_attempt,
    write_driver_history,
)
from ansible_collections.gpufleet.fleet.plugins.module_utils.kernels import is_meta_package  # noqa: E402
from ansible_collections.gpufleet.fleet.plugins.module_utils.versionlock import parse_locks  # noqa: E402

DRIVER_PACKAGE = re.compile(
    r"^(nvidia-|libnvidia-|libcuda|libnvcuvid|libnvoptix|firmware-nvidia|xserver-xorg-video-nvidia|cuda-drivers"
    r"|kmod-nvidia|amdgpu-|libxnvctrl|gdrdrv-|libgdrapi|gdrcopy)"
)
OTHER_PACKAGE = re.compile(
    r"^(nvidia-container|libnvidia-container|nvidia-cuda-|nvidia-mig-|nvidia-installer-cleanup|libcudart|libnvidia-nvvm-)"
)
MODULE_PACKAGE = re.compile(r"^(nvidia-(kernel-|open-)*dkms|kmod-nvidia)")
USER_PACKAGE = re.compile(r"^(libnvidia-ml|libnvidia-compute|nvidia-driver-cuda|libcuda1|nvidia-utils)")
FABRIC_MANAGER = re.compile(r"^(nvidia-fabric-?manager(-\d+)?)$")
IMEX = re.compile(r"^nvidia-imex(-\d+)?$")  # in place of the fabric manager on nodes of an NVLink rack
TOOLKIT = re.compile(r"^cuda-(\d+\.\d+)$")
DRIVER_UNITS = ("nvidia-persistenced.service", "nvidia-fabricmanager.service", "nvidia-imex.service")
MODULE_NAMES = ("nvidia", "nvidia-current")
UNIT_STATES = {"active": "running", "failed": "failed"}
# Where images of container platforms put the driver's programs: outside PATH for a login over SSH.
IMAGE_FOLDERS = ("/usr/local/nvidia/bin",)
REHEARSED_SYSFS = Path("/etc/gpufleet-rehearsal/sys")


def parse_upstream_version(package_version: str | None) -> str | None:
    """Return a package's version without epoch and revision: ``580.95.05`` of ``1:580.95.05-0ubuntu1``."""
    match = re.match(r"(?:\d+:)?([\d.]*\d)?", package_version or "")
    return match.group(1) if package_version and match else None


class DriverStateReader:
    """Read the host's drivers from commands and files."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.sysfs = REHEARSED_SYSFS if REHEARSED_SYSFS.is_dir() else Path("/sys")

    def run_tool(self, *command: str) -> tuple[int | None, str]:
        path = self.module.get_bin_path(command[0], opt_dirs=IMAGE_FOLDERS)
        if path is None:
            return None, ""
        status, out, err = self.module.run_command([path, *command[1:]])
        return status, out.strip() or err.strip()

    def read_package_versions(self) -> dict[str, str]:
        """Return the version of every installed package by name."""
        if self.module.get_bin_path("dpkg-query"):
            __, out = self.run_tool("dpkg-query", "-W", "-f", "${db:Status-Status} ${Package} ${Version}\n")
            rows = [line.split(" ") for line in out.splitlines()]
            return {name: version for status, name, version in rows if status != "not-installed" and version}
        # With the epoch, unless it is 0: so a plan has the versions of dnf's repositories.
        __, out = self.run_tool("rpm", "-qa", "--qf", "%{NAME} %{EPOCHNUM}:%{VERSION}-%{RELEASE}\n")
        pairs = (line.split(" ", 1) for line in out.splitlines() if " " in line)
        return {name: re.sub("^0:", "", version) for name, version in pairs}

    def read_half_installed_packages(self) -> list[str]:
        """Return packages that an interrupted dpkg left behind."""
        __, out = self.run_tool("dpkg-query", "-W", "-f", "${db:Status-Status} ${Package}\n")
        rows = [line.split(" ") for line in out.splitlines() if line.count(" ") == 1]
        return sorted(name for status, name in rows if status.startswith(("half-", "unpacked", "trigger")))

    def read_held_packages(self) -> list[str]:
        status, out = self.run_tool("apt-mark", "showhold")
        if status is not None:
            return sorted(out.split())
        __, out = self.run_tool("dnf", "-q", "versionlock", "list")
        return sorted(parse_locks(out.splitlines()))

    def read_loaded_module_version(self, name: str) -> str | None:
        try:
            return (self.sysfs / "module" / name / "version").read_text(encoding="utf-8").strip()
        except OSError:
            return None

    def read_built_driver_version(self) -> str | None:
        """Return the version of the module that is built for the running kernel."""
        for name in MODULE_NAMES:
            status, out = self.run_tool("modinfo", "-F", "version", name)
            if status == 0 and out:
                return out.splitlines()[0]
        return None

    def is_nouveau_bound(self) -> bool:
        """Return whether nouveau holds a PCI device."""
        return any((self.sysfs / "bus/pci/drivers/nouveau").glob("*:*"))

    def load_driver_module(self) -> str:
        """Load the installed module; return why it cannot be loaded, or an empty string."""
        status, out = self.run_tool("modprobe", "nvidia")
        return "" if status == 0 else " ".join(out.split())[:200] or "modprobe is not installed"

    def read_nvidia_smi(self) -> dict[str, Any]:
        """Return driver version and number of GPUs of nvidia-smi, or why it fails."""
        status, out = self.run_tool("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
        if status is None:
            return {"driver": None, "gpus": 0, "message": "nvidia-smi is not installed"}
        if status != 0:
            return {"driver": None, "gpus": 0, "message": " ".join(out.split())[:200]}
        rows = out.splitlines()
        is_fake = "FAKE" in self.run_tool("nvidia-smi", "--version")[1]
        return {"driver": rows[0] if rows else None, "gpus": len(rows), "message": "", "fake": is_fake}

    def read_unit_state(self, unit_name: str) -> dict[str, bool] | None:
        status, out = self.run_tool(
            "systemctl", "show", unit_name, "--property=LoadState,UnitFileState,ActiveState"
        )
        properties = dict(line.split("=", 1) for line in out.splitlines() if "=" in line)
        if status != 0 or properties.get("LoadState") != "loaded":
            return None
        return {
            "enabled": properties.get("UnitFileState") == "enabled",
            "active": properties.get("ActiveState") == "active",
        }

    def read_enabled_services(self) -> dict[str, str]:
        """Return the state of the driver's enabled daemons: running, stopped or failed."""
        __, out = self.run_tool(
            "systemctl", "show", "--property=Id,UnitFileState,ActiveState", "--", *DRIVER_UNITS
        )
        blocks = [[line for line in block.splitlines() if "=" in line] for block in out.split("\n\n")]
        units = [dict(line.split("=", 1) for line in block) for block in blocks]
        return {
            unit["Id"]: UNIT_STATES.get(unit["ActiveState"], "stopped")
            for unit in units
            if unit.get("UnitFileState") == "enabled"
        }

    def detect_container_kind(self) -> str | None:
        status, out = self.run_tool("systemd-detect-virt", "--container")
        return out if status == 0 else None

    def list_failed_units(self) -> list[str]:
        __, out = self.run_tool("systemctl", "list-units", "--state=failed", "--no-legend", "--plain")
        return sorted(line.split()[0] for line in out.splitlines() if line.strip())

    def trusts_withdrawn_nvidia_key(self) -> bool:
        """Return whether apt still trusts NVIDIA's withdrawn key for CUDA, 7FA2AF80.

        apt 3.0 no longer trusts /etc/apt/trusted.gpg (its NEWS) and comes without apt-key.
        """
        rings = list(Path("/etc/apt/trusted.gpg.d").glob("*.gpg"))
        if self.module.get_bin_path("apt-key"):
            rings.append(Path("/etc/apt/trusted.gpg"))
        return any(bytes.fromhex("7fa2af80") in path.read_bytes() for path in rings if path.is_file())

    def list_cuda_toolkit_versions(self) -> list[str]:
        matches = [TOOLKIT.match(path.name) for path in Path("/usr/local").glob("cuda-*")]
        return sorted(
            (match.group(1) for match in matches if match), key=lambda text: [*map(int, text.split("."))]
        )


def find_restart_reasons(
    decision: driver_restart.DriverDecision, state_reader: DriverStateReader
) -> list[str]:
    """Return why the host has to restart; empty if a restart would leave it without its loaded driver."""
    if driver_restart.would_lose_driver(decision):
        return []
    reasons = [decision["reason"]] if decision["action"] in driver_restart.RESTART_ACTIONS else []
    if Path("/run/reboot-required").exists():
        reasons.append("a package requests it (/run/reboot-required)")
    status, out = state_reader.run_tool("needs-restarting", "-r")
    if status == 1 and "Reboot is required" in out:
        reasons.append("a package requests it (needs-restarting)")
    return reasons


def first_matching_version(packages: dict[str, str], pattern: re.Pattern[str]) -> str | None:
    """Return the upstream version of the first package that matches."""
    return next(
        (parse_upstream_version(packages[name]) for name in sorted(packages) if pattern.match(name)), None
    )


def find_image_driver_version(loaded: str | None, smi: dict[str, Any]) -> str | None:
    """Return the version of a loaded driver that works and that neither a package nor ``modinfo`` knows.

    Small images have neither kmod nor the module's file. A module whose packages were just removed is loaded too,
    but its nvidia-smi is gone.
    """
    return loaded if loaded and loaded == smi["driver"] else None


def select_driver_packages(packages: dict[str, str]) -> dict[str, str]:
    return {n: v for n, v in packages.items() if DRIVER_PACKAGE.match(n) and not OTHER_PACKAGE.match(n)}


def read_driver_state(state_reader: DriverStateReader, certificates: list[str]) -> dict[str, Any]:
    packages = state_reader.read_package_versions()
    driver_set = select_driver_packages(packages)
    held_names = state_reader.read_held_packages()
    imex = first_matching_version(packages, IMEX)
    fabric = first_matching_version(packages, FABRIC_MANAGER) or imex
    fabric_unit = "nvidia-imex" if imex else "nvidia-fabricmanager"
    packaged = first_matching_version(driver_set, MODULE_PACKAGE) or first_matching_version(
        driver_set, USER_PACKAGE
    )
    built = state_reader.read_built_driver_version()
    nvidia_loaded = state_reader.read_loaded_module_version("nvidia")
    smi = state_reader.read_nvidia_smi()
    unpackaged = built or find_image_driver_version(nvidia_loaded, smi)
    is_signed_here = not packaged or any(map(MODULE_PACKAGE.match, driver_set))
    return {
        "packages": driver_set,
        "held": [name for name in held_names if name in driver_set],
        "kernel_packages": sorted(filter(is_meta_package, packages)),
        "unsound": state_reader.read_half_installed_packages(),
        "installed": packaged or unpackaged,
        "managed_by": "packages" if packaged else "elsewhere" if unpackaged else None,
        "user_space": first_matching_version(driver_set, USER_PACKAGE),
        "loaded": nvidia_loaded or state_reader.read_loaded_module_version("amdgpu"),
        "nvidia_loaded": nvidia_loaded,
        "load_error": "",
        "built": built,
        "nouveau": state_reader.is_nouveau_bound(),
        "signing_key": mokutil.read_signing_key(state_reader.module, certificates)
        if built and is_signed_here
        else "not_needed",
        "services": state_reader.read_enabled_services(),
        "smi": smi,
        "fabric_manager": {
            "version": fabric,
            "unit": fabric_unit,
            **(state_reader.read_unit_state(fabric_unit) or {}),
        }
        if fabric
        else None,
        "persistence": state_reader.read_unit_state("nvidia-persistenced"),
        "cuda": state_reader.list_cuda_toolkit_versions(),
        "kernel": os.uname().release,
        "headers": Path("/lib/modules", os.uname().release, "build").exists(),
        "container": state_reader.detect_container_kind(),
        "withdrawn_key": state_reader.trusts_withdrawn_nvidia_key(),
        "failed_units": state_reader.list_failed_units(),
    }


def read_and_decide(
    state_reader: DriverStateReader, params: dict[str, Any], history: DriverHistory, check_mode: bool
) -> tuple[dict[str, Any], bool]:
    """Return the host's state with the decision, and whether the module was loaded for it."""
    state = read_driver_state(state_reader, params["certificates"])
    decision = driver_restart.decide_driver_action(state, history["tried"])
    has_loaded = False
    if params["load"] and decision["action"] == "load" and not check_mode:
        load_error = state_reader.load_driver_module()
        state = {**read_driver_state(state_reader, params["certificates"]), "load_error": load_error}
        has_loaded = state["nvidia_loaded"] is not None
        decision = driver_restart.decide_driver_action(state, history["tried"])
    return {
        **state,
        "decision": decision,
        "restart": find_restart_reasons(decision, state_reader),
    }, has_loaded


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "planned_packages": {"type": "list", "elements": "dict", "default": []},
            "holds": {"type": "list", "elements": "str", "default": []},
            "reason": {"type": "str", "default": ""},
            "rolled_back": {"type": "bool", "default": False},
            "load": {"type": "bool", "default": False},
            "restarted": {"type": "bool", "default": False},
            "certificates": {
                "type": "list",
                "elements": "path",
                "default": ["/var/lib/shim-signed/mok/MOK.der", "/var/lib/dkms/mok.pub"],
            },
            "path": {"type": "path", "default": "/var/lib/gpufleet/drivers.json"},
            "node": {"type": "str", "default": ""},
            "facts": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    params = module.params
    record = read_driver_history(params["path"])
    state, has_loaded = read_and_decide(DriverStateReader(module), params, record, module.check_mode)
    fresh = update_driver_history(record, state, params)
    fresh = update_restart_attempt(fresh, state, has_restarted=params["restarted"])
    changed = fresh["sets"] != record["sets"] or fresh["rolled_back_from"] != record["rolled_back_from"]
    if fresh != record and not module.check_mode:
        try:
            write_driver_history(params["path"], fresh)
        except OSError as error:
            module.fail_json(
                msg=f"cannot save the list of installed drivers in {params['path']}: {error.strerror}"
            )
    report = {"node": params["node"], "event": "drivers", "facts": {**state, **params["facts"]}}
    module.exit_json(
        changed=changed or has_loaded,
        state=state,
        recorded=fresh["sets"],
        rolled_back_from=fresh["rolled_back_from"],
        previous=plan_package_rollback(state, params["planned_packages"], params["holds"]),
        **({"gpufleet": report} if params["node"] else {}),
    )


if __name__ == "__main__":
    main()
