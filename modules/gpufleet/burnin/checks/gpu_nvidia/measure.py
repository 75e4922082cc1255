"""NVIDIA's own report of its GPUs; raw output only, read centrally."""

from __future__ import annotations

import base64
import re
import zlib
from typing import Any

from ...agent.gpu import NVIDIA, list_gpu_pci_addresses
from ...agent.host import HostAccess, RawCheckResult, build_error_result, build_not_run_result

COMMAND_SECONDS = 60.0
# Long parts of nvidia-smi's report that no check reads.
UNUSED_SECTIONS = ("supported_clocks", "processes", "accounted_processes", "encoder_stats", "fbc_stats")
# A record above this is packed: eight GPUs' reports must fit one Ansible result.
COMPRESS_ABOVE_BYTES = 4096


def remove_unused_smi_sections(xml: str) -> str:
    """Leave out nvidia-smi's bulky sections, and the indentation."""
    for name in UNUSED_SECTIONS:
        xml = re.sub(rf"<{name}>.*?</{name}>", "", xml, flags=re.DOTALL)
    return re.sub(r">\s+<", "><", xml)


def compress_long_text(text: str) -> dict[str, str]:
    """Return text as it is, or compressed where it is long."""
    if len(text) <= COMPRESS_ABOVE_BYTES:
        return {"text": text}
    return {"zlib_base64": base64.b64encode(zlib.compress(text.encode(), 9)).decode()}


def explain_missing_nvidia_smi(host: HostAccess) -> str:
    """Return why NVIDIA checks can't run here, or nothing."""
    on_bus = len(list_gpu_pci_addresses(host, NVIDIA))
    if host.which("nvidia-smi"):
        return ""
    return (
        f"{on_bus} NVIDIA GPU on the PCI bus but nvidia-smi is not installed" if on_bus else "no NVIDIA GPU"
    )


def measure_host(host: HostAccess) -> RawCheckResult:
    """Keep nvidia-smi's full report."""
    reason = explain_missing_nvidia_smi(host)
    raw: dict[str, Any] = {
        "on_bus": list_gpu_pci_addresses(host, NVIDIA),
        "expect_gpus": host.get_parameter("expect_gpus", 0),
    }
    if reason:
        return build_not_run_result(reason, **raw)
    output = host.run(["nvidia-smi", "-q", "-x"], COMMAND_SECONDS)
    raw["code"] = output.code
    if output.code:
        return build_error_result(
            f"nvidia-smi exited with code {output.code}: {(output.err or output.out).strip()[:300]}", **raw
        )
    return RawCheckResult(
        "ran", raw={**raw, "xml": compress_long_text(remove_unused_smi_sections(output.out))}
    )
