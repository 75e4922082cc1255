"""NVIDIA's own report of its GPUs; raw output only, read centrally."""

from __future__ import annotations

import base64
import re
import time
import zlib
from typing import Any

from ...agent.command import CommandOutput
from ...agent.gpu import NVIDIA, list_gpu_pci_addresses
from ...agent.host import HostAccess, RawCheckResult, build_error_result, build_not_run_result

COMMAND_SECONDS = 60.0
LINK_SECONDS = 20.0
# After a boot the fabric manager needs a minute or two until it has registered the GPUs (NVIDIA/NVSentinel counts a
# GPU as stuck after 90 seconds): a node that booted less than ten minutes ago gets that time.
FABRIC_SECONDS, FABRIC_PAUSE_SECONDS, YOUNG_SECONDS = 90.0, 10.0, 600.0
REGISTERING = re.compile(r"<fabric>\s*<state>(?:In Progress|Not Started)</state>")
REPORT_START, REPORT_END = "<?xml", "</nvidia_smi_log>"
MESSAGE_CHARACTERS = 4000
WARNING = "WARNING:"
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


def split_report(text: str) -> tuple[str, str]:
    """Return the report and what stands around it: warnings, or the reason why there is no report."""
    before, mark, rest = text.partition(REPORT_START)
    report, end, after = rest.partition(REPORT_END)
    return (mark + report + end, before + after) if end else ("", text)


def read_uptime(host: HostAccess) -> float | None:
    """Return the seconds since boot."""
    match = re.match(r"\d{1,12}(?:\.\d{1,3})?", host.read_text_file("/proc/uptime") or "")
    return float(match[0]) if match else None


def query_report(host: HostAccess, uptime: float | None) -> CommandOutput:
    """Return nvidia-smi's report; soon after a boot, that in which the fabric manager has done its work."""
    output = host.run(["nvidia-smi", "-q", "-x"], COMMAND_SECONDS)
    end = time.monotonic() + FABRIC_SECONDS
    while (
        uptime is not None
        and uptime < YOUNG_SECONDS
        and REGISTERING.search(output.out)
        and time.monotonic() < end
    ):
        time.sleep(FABRIC_PAUSE_SECONDS)
        output = host.run(["nvidia-smi", "-q", "-x"], COMMAND_SECONDS)
    return output


def read_link_status(host: HostAccess) -> dict[str, Any]:
    """Return what nvidia-smi says of NVLink; nothing from a version without this command."""
    output = host.run(["nvidia-smi", "nvlink", "-s"], LINK_SECONDS)
    return {} if output.code or not output.out.strip() else {"nvlink": compress_long_text(output.out)}


def read_warnings(host: HostAccess) -> list[str]:
    """Return the warnings below nvidia-smi's table: a corrupted infoROM is not in its report (microsoft/pai 3756)."""
    output = host.run(["nvidia-smi"], LINK_SECONDS)
    lines = [line.strip() for line in (output.out + "\n" + output.err).splitlines()]
    return [line for line in lines if line.startswith(WARNING)]


def measure_host(host: HostAccess) -> RawCheckResult:
    """Keep nvidia-smi's full report, what it says in words, and the state of NVLink."""
    reason = explain_missing_nvidia_smi(host)
    raw: dict[str, Any] = {
        "on_bus": list_gpu_pci_addresses(host, NVIDIA),
        "expect_gpus": host.get_parameter("expect_gpus", 0),
        "expect_nvlinks": host.get_parameter("expect_nvlinks", 0),
        "expect_nvswitch": host.get_parameter("expect_nvswitch", ""),
    }
    if reason:
        return build_not_run_result(reason, **raw)
    uptime = read_uptime(host)
    output = query_report(host, uptime)
    report, words = split_report(output.out)
    said = [text.strip() for text in (words, output.err) if text.strip()]
    warnings = read_warnings(host) if report else []
    said += [line for line in dict.fromkeys(warnings) if all(line not in text for text in said)]
    message = "\n".join(said)[:MESSAGE_CHARACTERS]
    raw |= {"code": output.code, "uptime_s": uptime}
    if message:
        raw["message"] = message
    if not report and not message:
        return build_error_result(f"nvidia-smi exited with code {output.code} and printed nothing", **raw)
    if not report:
        return RawCheckResult("ran", raw=raw)
    return RawCheckResult(
        "ran",
        raw={**raw, "xml": compress_long_text(remove_unused_smi_sections(report)), **read_link_status(host)},
    )
