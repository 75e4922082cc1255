"""SMART: the drives' own health data, through smartctl's JSON."""

from __future__ import annotations

import json
import re
from typing import Any

from .host import HostAccess, RawCheckResult, build_not_run_result

COMMAND_SECONDS = 20.0
REPORT_FIELDS = (
    "model_name",
    "serial_number",
    "smart_status",
    "nvme_smart_health_information_log",
    "temperature",
)


def list_whole_drives(host: HostAccess) -> list[str]:
    """Return whole NVMe and SCSI/SATA drives."""
    return [name for name in host.list_folder("/sys/block") if re.fullmatch(r"nvme\d+n\d+|sd[a-z]+", name)]


def read_smart_health(host: HostAccess, drive_name: str) -> dict[str, Any]:
    """Return one drive's health; smartctl's exit bits are kept, its JSON says what they mean."""
    output = host.run(["smartctl", "-j", "-i", "-H", "-A", f"/dev/{drive_name}"], COMMAND_SECONDS)
    try:
        report = json.loads(output.out)
    except ValueError:
        return {"name": drive_name, "code": output.code, "error": (output.err or output.out)[-200:]}
    fields = {key: report[key] for key in REPORT_FIELDS if isinstance(report, dict) and key in report}
    return {"name": drive_name, "code": output.code, **fields}


def run_smart_check(host: HostAccess) -> RawCheckResult:
    """Read the health of every drive."""
    if host.which("smartctl") is None:
        return build_not_run_result("smartctl is not installed")
    names = list_whole_drives(host)
    if not names:
        return build_not_run_result("no NVMe or SATA drive")
    return RawCheckResult(
        "ran",
        measured=len(names),
        unit="drives",
        raw={"drives": [read_smart_health(host, name) for name in names]},
    )
