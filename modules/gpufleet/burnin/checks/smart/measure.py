"""SMART: the drives' own health data, through smartctl's JSON."""

from __future__ import annotations

import json
import re
from typing import Any

from ...agent.host import HostAccess, RawCheckResult, build_not_run_result

COMMAND_SECONDS = 20.0
REPORT_FIELDS = (
    "device",
    "model_name",
    "scsi_model_name",
    "serial_number",
    "firmware_version",
    "scsi_revision",
    "smart_support",
    "smart_status",
    "nvme_smart_health_information_log",
    "scsi_grown_defect_list",
    "scsi_error_counter_log",
    "scsi_percentage_used_endurance_indicator",
    "power_on_time",
    "temperature",
)
# ATA attributes whose raw value is a count in every vendor's table: reallocated, reported uncorrectable, pending and
# offline uncorrectable sectors, CRC errors of the cable. Others are kept only if smartctl calls them failed.
ATA_COUNTERS = (5, 187, 197, 198, 199)


def list_whole_drives(host: HostAccess) -> list[str]:
    """Return whole NVMe and SCSI/SATA drives."""
    return [name for name in host.list_folder("/sys/block") if re.fullmatch(r"nvme\d+n\d+|sd[a-z]+", name)]


def select_ata_attributes(report: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of the ATA attribute table that are judged; the table's vendor text is left out."""
    table = report.get("ata_smart_attributes")
    rows = table.get("table") if isinstance(table, dict) else None
    return [
        {
            "id": row.get("id"),
            "name": row.get("name"),
            "when_failed": row.get("when_failed"),
            "prefailure": row["flags"].get("prefailure") if isinstance(row.get("flags"), dict) else None,
            "raw": row["raw"].get("value") if isinstance(row.get("raw"), dict) else None,
        }
        for row in (rows if isinstance(rows, list) else [])
        if isinstance(row, dict) and (row.get("id") in ATA_COUNTERS or row.get("when_failed"))
    ]


def read_smart_health(host: HostAccess, drive_name: str) -> dict[str, Any]:
    """Return one drive's health; smartctl's exit bits are kept, its JSON says what they mean."""
    # -l error: the error counters of SAS drives; their kind of drive has no attributes.
    output = host.run(
        ["smartctl", "-j", "-i", "-H", "-A", "-l", "error", f"/dev/{drive_name}"], COMMAND_SECONDS
    )
    facts: dict[str, Any] = {"name": drive_name, "code": output.code}
    try:
        report = json.loads(output.out)
    except ValueError:
        return {**facts, "error": (output.err or output.out)[-200:]}
    if not isinstance(report, dict):
        return {**facts, "error": output.out[-200:]}
    facts.update({key: report[key] for key in REPORT_FIELDS if key in report})
    attributes = select_ata_attributes(report)
    if attributes:
        facts["ata_attributes"] = attributes
    head = report.get("smartctl")
    messages = head.get("messages") if isinstance(head, dict) else None
    if isinstance(messages, list) and messages:
        facts["messages"] = [
            str(message.get("string"))[:200] for message in messages[:5] if isinstance(message, dict)
        ]
    return facts


def measure_host(host: HostAccess) -> RawCheckResult:
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
