"""Which checks run, in what order, how long each may take, and how hard they work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from . import (
    clock,
    cpu,
    gpu,
    gpu_compute,
    gpu_copy,
    gpu_memory,
    gpu_vulkan,
    memory,
    network,
    pi,
    smart,
    storage,
)
from .host import HostAccess, RawCheckResult


class CheckSpec(NamedTuple):
    """A check and the seconds after which it is ended, beyond what its parameters ask for."""

    run: Callable[[HostAccess], RawCheckResult]
    seconds: float


# Firmware flags and temperatures are read after the load that would raise them.
CHECKS: dict[str, CheckSpec] = {
    "clock": CheckSpec(clock.run_clock_check, 15.0),
    "cpu": CheckSpec(cpu.run_cpu_check, 120.0),
    "memory": CheckSpec(memory.run_memory_check, 180.0),
    "storage": CheckSpec(storage.run_storage_check, 300.0),
    "network": CheckSpec(network.run_network_check, 60.0),
    "pi_throttled": CheckSpec(pi.run_throttling_check, 15.0),
    "pi_temperature": CheckSpec(pi.run_temperature_check, 15.0),
    "nvme_link": CheckSpec(pi.run_nvme_link_check, 15.0),
    "smart": CheckSpec(smart.run_smart_check, 120.0),
    "blade": CheckSpec(pi.run_compute_blade_check, 15.0),
    "gpu_compute": CheckSpec(gpu_compute.run_gpu_compute_check, 200.0),
    "gpu_memory": CheckSpec(gpu_memory.run_gpu_memory_check, 200.0),
    "gpu_copy": CheckSpec(gpu_copy.run_gpu_copy_check, 1200.0),
    "gpu_nvidia": CheckSpec(gpu.run_nvidia_gpu_check, 70.0),
    "gpu_xid": CheckSpec(gpu.run_xid_check, 70.0),
    "gpu_amd": CheckSpec(gpu.run_amd_gpu_check, 30.0),
    "gpu_vulkan": CheckSpec(gpu_vulkan.run_gpu_vulkan_check, 400.0),
}

# Every number is a parameter: `-p cpu_seconds=60`.
PROFILES: dict[str, dict[str, Any]] = {
    "quick": {
        "cpu_seconds": 20.0,
        "memory_mib": 512,
        "memory_seconds": 5.0,
        "storage_mib": 256,
        "network_seconds": 3.0,
        "gpu_seconds": 10.0,
        "gpu_memory_seconds": 5.0,
        "gpu_copy_seconds": 1.0,
        "vulkan_seconds": 10.0,
    },
}

# Many rehearsed hosts share a few cores and one disk: just enough work to measure something real. A run at
# this pace says so in its start line, and is only ever judged as a rehearsal.
REHEARSAL_PARAMETERS: dict[str, Any] = {
    "cpu_seconds": 0.3,
    "memory_mib": 48,
    "memory_seconds": 0.1,
    "storage_mib": 16,
    "network_seconds": 0.2,
    "gpu_seconds": 0.5,
    "gpu_memory_seconds": 0.2,
    "gpu_copy_seconds": 0.1,
    "vulkan_seconds": 0.5,
}

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
    "vulkan_seconds",
)


def build_check_parameters(profile: str, overrides: dict[str, str]) -> dict[str, Any]:
    """Return a profile's parameters with those given on the command line in their place."""
    rehearsal = str(overrides.get("rehearsal", "")).lower() in {"1", "true", "yes"}
    pace = REHEARSAL_PARAMETERS if rehearsal else {}
    return {**PROFILES[profile], **pace, **overrides, "rehearsal": rehearsal}


def compute_time_limit_s(check_name: str, params: dict[str, Any]) -> float:
    """Return the seconds after which a check is ended."""
    requested_seconds = sum(float(params.get(key, 0)) for key in WORK_PARAMETERS)
    return CHECKS[check_name].seconds + 3 * requested_seconds
