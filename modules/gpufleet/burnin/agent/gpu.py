"""GPUs: NVIDIA inventory and kernel errors, AMD inventory; raw output only, read centrally."""

from __future__ import annotations

import base64
import re
import zlib
from typing import Any

from .host import Host, Result, failed, not_run

SECONDS = 60.0
NVIDIA, AMD = "0x10de", "0x1002"
DISPLAY_CLASS = "0x03"
# Long parts of nvidia-smi's report that no check reads.
BULKY = ("supported_clocks", "processes", "accounted_processes", "encoder_stats", "fbc_stats")
# A record above this is packed: eight GPUs' reports must fit one Ansible result.
PACK_ABOVE = 4096
XID_LINES = 200


def display_devices(host: Host, vendor: str) -> list[str]:
    """Return PCI addresses of a vendor's display controllers (3D controllers included)."""
    base = "/sys/bus/pci/devices"
    return [
        slot
        for slot in host.names(base)
        if host.text(f"{base}/{slot}/vendor") == vendor
        and (host.text(f"{base}/{slot}/class") or "").startswith(DISPLAY_CLASS)
    ]


def prune(xml: str) -> str:
    """Leave out nvidia-smi's bulky sections, and the indentation."""
    for name in BULKY:
        xml = re.sub(rf"<{name}>.*?</{name}>", "", xml, flags=re.DOTALL)
    return re.sub(r">\s+<", "><", xml)


def packed(text: str) -> dict[str, str]:
    """Return text as it is, or compressed where it is long."""
    if len(text) <= PACK_ABOVE:
        return {"text": text}
    return {"zlib_base64": base64.b64encode(zlib.compress(text.encode(), 9)).decode()}


def nvidia_absent(host: Host) -> str:
    """Return why NVIDIA checks can't run here, or nothing."""
    on_bus = len(display_devices(host, NVIDIA))
    if host.which("nvidia-smi"):
        return ""
    return (
        f"{on_bus} NVIDIA GPU on the PCI bus but nvidia-smi is not installed" if on_bus else "no NVIDIA GPU"
    )


def nvidia(host: Host) -> Result:
    """Keep nvidia-smi's full report."""
    absent = nvidia_absent(host)
    raw: dict[str, Any] = {
        "on_bus": display_devices(host, NVIDIA),
        "expect_gpus": host.param("expect_gpus", 0),
    }
    if absent:
        return not_run(absent, **raw)
    done = host.run(["nvidia-smi", "-q", "-x"], SECONDS)
    raw["code"] = done.code
    if done.code:
        return failed(f"nvidia-smi ended with code {done.code}: {(done.err or done.out)[:300]}", **raw)
    return Result("ran", raw={**raw, "xml": packed(prune(done.out))})


def xid(host: Host) -> Result:
    """Keep the kernel log's NVIDIA error lines."""
    absent = nvidia_absent(host)
    if absent:
        return not_run(absent)
    done = host.run(["dmesg"], SECONDS)
    if done.code:
        return failed(f"dmesg ended with code {done.code}: {done.err[:200]}")
    lines = [line for line in done.out.splitlines() if "NVRM: Xid" in line or "SXid" in line]
    return Result(
        "ran", measured=len(lines), unit="lines", raw={"lines": lines[-XID_LINES:], "count": len(lines)}
    )


def amd(host: Host) -> Result:
    """Read AMD GPUs, their driver, memory and link from sysfs; no tool is needed."""
    devices = [amd_device(host, slot) for slot in display_devices(host, AMD)]
    raw = {"devices": devices, "expect_gpus": host.param("expect_gpus", 0)}
    if not devices and not raw["expect_gpus"]:
        return not_run("no AMD GPU", **raw)
    return Result("ran", measured=len(devices), unit="GPUs", raw=raw)


def amd_device(host: Host, slot: str) -> dict[str, Any]:
    """Return one GPU as sysfs has it; the link files are those of any PCI device."""
    base = f"/sys/bus/pci/devices/{slot}"
    found: dict[str, Any] = {"slot": slot, "device": host.text(f"{base}/device")}
    found["driver"] = host.path(f"{base}/driver").resolve().name if host.names(f"{base}/driver") else None
    found["vram_bytes"] = host.number(f"{base}/mem_info_vram_total")
    for key in ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width"):
        found[key] = host.text(f"{base}/{key}")
    return found
