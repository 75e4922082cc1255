"""The kernel log's hardware errors on a node with GPUs; raw output only, read centrally."""

from __future__ import annotations

from ...agent.gpu import AMD, NVIDIA, list_gpu_pci_addresses
from ...agent.host import HostAccess, RawCheckResult, build_error_result, build_not_run_result
from ...agent.kernel_log import KernelErrorGroups

COMMAND_SECONDS = 60.0


def measure_host(host: HostAccess) -> RawCheckResult:
    """Keep the kernel log's hardware errors, grouped."""
    has_gpu = any(list_gpu_pci_addresses(host, vendor) for vendor in (NVIDIA, AMD))
    if not has_gpu and host.which("nvidia-smi") is None:
        return build_not_run_result("no GPU of NVIDIA or AMD")
    errors = KernelErrorGroups()
    output = host.run(["dmesg"], COMMAND_SECONDS, errors.add)
    if output.code:
        return build_error_result(f"dmesg exited with code {output.code}: {output.err.strip()[:200]}")
    return RawCheckResult("ran", measured=errors.count, unit="lines", raw=errors.summarize())
