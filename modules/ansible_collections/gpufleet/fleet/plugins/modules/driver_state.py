# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Read what a host has of a GPU driver in one call, and remember it before it is replaced."""

from __future__ import annotations

DOCUMENTATION = """
module: driver_state
short_description: Read a host's drivers, and record their packages before they are replaced
description:
  - Returns the driver's installed and held packages; the versions of the loaded module, of the module built for the
    running kernel and of the user-space part; fabric manager, persistence daemon and CUDA toolkits.
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

import json  # noqa: E402 - Ansible wants its documentation above the imports
import os  # noqa: E402
import re  # noqa: E402
import time  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any, TypedDict  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402

from ansible_collections.gpufleet.fleet.plugins.module_utils.versionlock import parse_locks  # noqa: E402

DRIVER_PACKAGE = re.compile(
    r"^(nvidia-|libnvidia-|libcuda|libnvcuvid|libnvoptix|firmware-nvidia|xserver-xorg-video-nvidia|cuda-drivers"
    r"|kmod-nvidia|amdgpu-|libxnvctrl)"
)
OTHER_PACKAGE = re.compile(
    r"^(nvidia-container|libnvidia-container|nvidia-cuda-|nvidia-mig-|nvidia-installer-cleanup|libcudart|libnvidia-nvvm-)"
)
MODULE_PACKAGE = re.compile(r"^(nvidia-(kernel-|open-)*dkms|kmod-nvidia)")
USER_PACKAGE = re.compile(r"^(libnvidia-ml|libnvidia-compute|nvidia-driver-cuda|libcuda1|nvidia-utils)")
FABRIC_MANAGER = re.compile(r"^(nvidia-fabric-?manager(-\d+)?)$")
TOOLKIT = re.compile(r"^cuda-(\d+\.\d+)$")
MAX_SETS = 5


class DriverHistory(TypedDict):
    """The recorded driver sets of a host, the newest last."""

    sets: list[dict[str, Any]]
    rolled_back_from: dict[str, str]


def parse_upstream_version(package_version: str | None) -> str | None:
    """Return a package's version without epoch and revision: ``580.95.05`` of ``1:580.95.05-0ubuntu1``."""
    match = re.match(r"(?:\d+:)?([\d.]*\d)?", package_version or "")
    return match.group(1) if package_version and match else None


class DriverStateReader:
    """Read the host's drivers from commands and files."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module

    def run_tool(self, *command: str) -> tuple[int | None, str]:
        path = self.module.get_bin_path(command[0])
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
        rows = (line.split(" ", 1) for line in out.splitlines() if " " in line)
        return {name: re.sub("^0:", "", version) for name, version in rows}

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

    def read_loaded_driver_version(self) -> str | None:
        for path in ("/sys/module/nvidia/version", "/sys/module/amdgpu/version"):
            try:
                return Path(path).read_text(encoding="utf-8").strip()
            except OSError:
                continue
        return None

    def read_built_driver_version(self) -> str | None:
        """Return the version of the module that is built for the running kernel."""
        for name in ("nvidia", "nvidia-current"):
            status, out = self.run_tool("modinfo", "-F", "version", name)
            if status == 0 and out:
                return out.splitlines()[0]
        return None

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


def find_restart_reasons(state: dict[str, Any], state_reader: DriverStateReader) -> list[str]:
    """Return why the host has to restart."""
    reasons = []
    installed, loaded = state["installed"], state["loaded"]
    if loaded and installed and loaded != installed:
        reasons.append(f"driver {loaded} is loaded, {installed} is installed")
    elif installed and not loaded and state["built"] and not state["container"]:
        reasons.append(f"driver {installed} is installed, no module is loaded")
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


def select_driver_packages(packages: dict[str, str]) -> dict[str, str]:
    return {n: v for n, v in packages.items() if DRIVER_PACKAGE.match(n) and not OTHER_PACKAGE.match(n)}


def read_driver_state(state_reader: DriverStateReader) -> dict[str, Any]:
    packages = state_reader.read_package_versions()
    driver_set = select_driver_packages(packages)
    held_names = state_reader.read_held_packages()
    fabric = first_matching_version(packages, FABRIC_MANAGER)
    state = {
        "packages": driver_set,
        "held": [name for name in held_names if name in driver_set],
        "unsound": state_reader.read_half_installed_packages(),
        "installed": first_matching_version(driver_set, MODULE_PACKAGE)
        or first_matching_version(driver_set, USER_PACKAGE),
        "user_space": first_matching_version(driver_set, USER_PACKAGE),
        "loaded": state_reader.read_loaded_driver_version(),
        "built": state_reader.read_built_driver_version(),
        "smi": state_reader.read_nvidia_smi(),
        "fabric_manager": {"version": fabric, **(state_reader.read_unit_state("nvidia-fabricmanager") or {})}
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
    return {**state, "restart": find_restart_reasons(state, state_reader)}


def read_driver_history(path: str) -> DriverHistory:
    try:
        stored = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        stored = {}
    return {"sets": stored.get("sets", []), "rolled_back_from": stored.get("rolled_back_from", {})}


def update_driver_history(
    history: DriverHistory, state: dict[str, Any], params: dict[str, Any]
) -> DriverHistory:
    """Return the history with the installed set added if it will be replaced."""
    requested = {entry["name"]: entry.get("version") for entry in params["planned_packages"]}
    here = state["packages"]
    same = all(name in here and version in (None, "", here[name]) for name, version in requested.items())
    if not requested or same:
        return history
    fresh = history.copy()
    now = {key: state[key] for key in ("packages", "held", "kernel", "loaded")}
    last = history["sets"][-1]["packages"] if history["sets"] else None
    if here and here != last:
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        fresh["sets"] = [*history["sets"], {"recorded_at": at, "reason": params["reason"], **now}][-MAX_SETS:]
    if params["rolled_back"]:
        fresh["rolled_back_from"] = here
    elif history["rolled_back_from"]:
        fresh["rolled_back_from"] = {}
    return fresh


def write_driver_history(path: str, history: DriverHistory) -> None:
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f".{target.name}.{os.getpid()}")
    fresh.write_text(json.dumps(history, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    fresh.replace(target)


def plan_package_rollback(
    state: dict[str, Any], requested_packages: list[dict[str, str]], held_names: list[str]
) -> dict[str, Any]:
    """Return the packages to restore: each at its version, and those to remove because they are new."""
    here = state["packages"]
    return {
        "present": [f"{name}={version}" for name, version in sorted(here.items())],
        "absent": sorted(entry["name"] for entry in requested_packages if entry["name"] not in here),
        "held": state["held"],
        "unheld": sorted({*held_names, *(entry["name"] for entry in requested_packages)} - {*state["held"]}),
        "version": state["installed"],
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "planned_packages": {"type": "list", "elements": "dict", "default": []},
            "holds": {"type": "list", "elements": "str", "default": []},
            "reason": {"type": "str", "default": ""},
            "rolled_back": {"type": "bool", "default": False},
            "path": {"type": "path", "default": "/var/lib/gpufleet/drivers.json"},
            "node": {"type": "str", "default": ""},
            "facts": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    params = module.params
    state = read_driver_state(DriverStateReader(module))
    record = read_driver_history(params["path"])
    fresh = update_driver_history(record, state, params)
    changed = fresh != record
    if changed and not module.check_mode:
        try:
            write_driver_history(params["path"], fresh)
        except OSError as error:
            module.fail_json(
                msg=f"cannot save the list of installed drivers in {params['path']}: {error.strerror}"
            )
    report = {"node": params["node"], "event": "drivers", "facts": {**state, **params["facts"]}}
    module.exit_json(
        changed=changed,
        state=state,
        recorded=fresh["sets"],
        rolled_back_from=fresh["rolled_back_from"],
        previous=plan_package_rollback(state, params["planned_packages"], params["holds"]),
        **({"gpufleet": report} if params["node"] else {}),
    )


if __name__ == "__main__":
    main()
