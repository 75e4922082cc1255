"""Which checks run, in what order, how long each may take, and how hard they work."""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

from .host import HostAccess, RawCheckResult


class CheckSpec(NamedTuple):
    """A check: its function as ``module.function`` of this package, and the seconds after which it is ended.

    A check that loads the node (``is_load``) also has the time that its parameters ask for, and is not run on a busy
    node. Its module is imported in the process of the check: the agent itself stays small and starts at once.
    """

    function: str
    seconds: float
    is_load: bool = True

    def run(self, host: HostAccess) -> RawCheckResult:
        """Run the check on a host."""
        module, _, name = self.function.partition(".")
        result: RawCheckResult = getattr(importlib.import_module(f".{module}", __package__), name)(host)
        return result


# Firmware flags and temperatures are read after the load that would raise them.
CHECKS: dict[str, CheckSpec] = {
    "clock": CheckSpec("clock.run_clock_check", 15.0, is_load=False),
    "hardware": CheckSpec("hardware.run_hardware_check", 15.0, is_load=False),
    "versions": CheckSpec("versions.run_versions_check", 30.0, is_load=False),
    "cpu": CheckSpec("cpu.run_cpu_check", 120.0),
    "memory": CheckSpec("memory.run_memory_check", 180.0),
    "storage": CheckSpec("storage.run_storage_check", 300.0),
    "network": CheckSpec("network.run_network_check", 60.0),
    "pi_throttled": CheckSpec("pi.run_throttling_check", 15.0, is_load=False),
    "pi_temperature": CheckSpec("pi.run_temperature_check", 15.0, is_load=False),
    "nvme_link": CheckSpec("pi.run_nvme_link_check", 15.0, is_load=False),
    "smart": CheckSpec("smart.run_smart_check", 120.0, is_load=False),
    "blade": CheckSpec("pi.run_compute_blade_check", 15.0, is_load=False),
    "gpu_compute": CheckSpec("gpu_compute.run_gpu_compute_check", 200.0),
    "gpu_memory": CheckSpec("gpu_memory.run_gpu_memory_check", 200.0),
    "gpu_copy": CheckSpec("gpu_copy.run_gpu_copy_check", 1200.0),
    "nccl": CheckSpec("nccl.run_nccl_check", 640.0),
    "gpu_nvidia": CheckSpec("gpu.run_nvidia_gpu_check", 70.0, is_load=False),
    "gpu_xid": CheckSpec("gpu.run_xid_check", 70.0, is_load=False),
    "gpu_amd": CheckSpec("gpu_amd.run_amd_gpu_check", 30.0, is_load=False),
    "gpu_hip": CheckSpec("gpu_hip.run_gpu_hip_check", 400.0),
    "gpu_vulkan": CheckSpec("gpu_vulkan.run_gpu_vulkan_check", 400.0),
}

# Every number is a parameter: `-p cpu_seconds=60`. A round runs every check once; no new round begins that would end
# after the budget, by the longest round so far.
PROFILES: dict[str, dict[str, Any]] = {
    "quick": {
        "rounds": 1,
        "cpu_seconds": 20.0,
        "memory_mib": 512,
        "memory_seconds": 5.0,
        "storage_mib": 256,
        "network_seconds": 3.0,
        "gpu_seconds": 10.0,
        "gpu_memory_seconds": 5.0,
        "gpu_copy_seconds": 1.0,
        "card_seconds": 10.0,
    },
    "standard": {
        "rounds": 2,
        "budget_seconds": 3600.0,
        "cpu_seconds": 300.0,
        "stress_ng_seconds": 300.0,
        "memory_mib": 4096,
        "memory_seconds": 30.0,
        "storage_mib": 2048,
        "fio_seconds": 300.0,
        "network_seconds": 30.0,
        "gpu_seconds": 300.0,
        "gpu_memory_seconds": 120.0,
        "gpu_copy_seconds": 5.0,
        "card_seconds": 120.0,
    },
    "soak": {
        "rounds": 48,
        "budget_seconds": 86_400.0,
        "cpu_seconds": 600.0,
        "stress_ng_seconds": 900.0,
        "memory_mib": 16_384,
        "memory_seconds": 60.0,
        "storage_mib": 4096,
        "fio_seconds": 600.0,
        "nccl_mib": 4096,
        "network_seconds": 60.0,
        "gpu_seconds": 900.0,
        "gpu_memory_seconds": 300.0,
        "gpu_copy_seconds": 10.0,
        "card_seconds": 300.0,
    },
}

# Many rehearsed hosts share a few cores and one disk: just enough work to measure something real. A run at
# this pace says so in its start line, and is only ever judged as a rehearsal.
REHEARSAL_PARAMETERS: dict[str, Any] = {
    "cpu_seconds": 0.3,
    "stress_ng_seconds": 0.0,
    "fio_seconds": 0.0,
    "memory_mib": 48,
    "memory_seconds": 0.1,
    "storage_mib": 16,
    "network_seconds": 0.2,
    "gpu_seconds": 0.5,
    "gpu_memory_seconds": 0.2,
    "gpu_copy_seconds": 0.1,
    "card_seconds": 0.5,
}

MAX_REHEARSAL_ROUNDS = 2

# How long each check asks to work, by parameter; its limit is that, tripled, plus the seconds above.
WORK_PARAMETERS = (
    "cpu_seconds",
    "memory_seconds",
    "network_seconds",
    "stress_ng_seconds",
    "fio_seconds",
    "gpu_seconds",
    "gpu_memory_seconds",
    "gpu_copy_seconds",
    "card_seconds",
)


def build_check_parameters(profile: str, overrides: dict[str, Any]) -> dict[str, Any]:
    """Return a profile's parameters with those given on the command line in their place."""
    rehearsal = bool(overrides.get("rehearsal", False))
    rounds = {"rounds": min(PROFILES[profile]["rounds"], MAX_REHEARSAL_ROUNDS)}
    pace = {**REHEARSAL_PARAMETERS, **rounds} if rehearsal else {}
    return {**PROFILES[profile], **pace, **overrides, "rehearsal": rehearsal}


def compute_time_limit_s(check_name: str, params: dict[str, Any]) -> float:
    """Return the seconds after which a check is ended."""
    check = CHECKS[check_name]
    requested_seconds = sum(float(params.get(key, 0)) for key in WORK_PARAMETERS) if check.is_load else 0.0
    return check.seconds + 3 * requested_seconds
