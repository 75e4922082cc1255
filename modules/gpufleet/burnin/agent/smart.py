"""SMART: what drives say about themselves, through smartctl's JSON."""

from __future__ import annotations

import json
import re
from typing import Any

from .host import Host, Result, not_run

SECONDS = 20.0
KEEP = ("model_name", "serial_number", "smart_status", "nvme_smart_health_information_log", "temperature")


def drives(host: Host) -> list[str]:
    """Return whole NVMe and SCSI/SATA drives."""
    return [name for name in host.names("/sys/block") if re.fullmatch(r"nvme\d+n\d+|sd[a-z]+", name)]


def ask(host: Host, name: str) -> dict[str, Any]:
    """Return one drive's health; smartctl's exit bits are kept, its JSON says what they mean."""
    done = host.run(["smartctl", "-j", "-i", "-H", "-A", f"/dev/{name}"], SECONDS)
    try:
        report = json.loads(done.out)
    except ValueError:
        return {"name": name, "code": done.code, "error": (done.err or done.out)[-200:]}
    kept = {key: report[key] for key in KEEP if isinstance(report, dict) and key in report}
    return {"name": name, "code": done.code, **kept}


def check(host: Host) -> Result:
    """Ask every drive."""
    if host.which("smartctl") is None:
        return not_run("smartctl is not installed")
    names = drives(host)
    if not names:
        return not_run("no NVMe or SATA drive")
    return Result(
        "ran", measured=len(names), unit="drives", raw={"drives": [ask(host, name) for name in names]}
    )
