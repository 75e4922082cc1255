"""What drives predict and count: NVMe, ATA and SAS."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from gpufleet.burnin.checks.smart.firmware_fault import FirmwareFault, list_firmware_faults
from gpufleet.burnin.evidence import (
    NOT_APPLICABLE,
    CheckReadings,
    Raw,
    Reading,
    add_up_counts,
    build_check_readings,
    explain_if_empty,
    list_or_empty,
    mapping_or_empty,
    to_finite_number,
)

# Bits of NVMe's critical_warning, by enum nvme_smart_crit of libnvme. Temperature passes; the others do not.
SPARE_LOW, TOO_HOT, DEGRADED, READ_ONLY, BACKUP_FAILED = 0x01, 0x02, 0x04, 0x08, 0x10
FAILING_BITS = SPARE_LOW | DEGRADED | READ_ONLY | BACKUP_FAILED
USED_UP = 100.0
# The values 101 to 255 of the spare capacity and its threshold are reserved (NVM Express base specification): a drive
# that reports them reports no shares at all (hiyohiyo/CrystalDiskInfo #186: a new 980 PRO with 64, 255 and 255).
ALL_SPARE, SPARE_SHARES = 100, ("available_spare", "available_spare_threshold")
SHARES = (*SPARE_SHARES, "percentage_used")
# SPC-5, additional sense code 5Dh/73h: impending failure, endurance limit met.
ENDURANCE_MET = (0x5D, 0x73)
# Each ATA counter with its attribute's number and what smartmontools' names of it have in common. Its drive database
# renames an attribute that counts something else in a model, or that is wrong (Bogus_Current_Pend_Sect, Not_In_Use).
ATA_COUNTERS = {
    "reallocated": (5, re.compile(r"real+oc|retired|bad_bl", re.IGNORECASE)),
    "reported_uncorrectable": (187, re.compile(r"report|uncor", re.IGNORECASE)),
    "pending": (197, re.compile(r"pend", re.IGNORECASE)),
    "offline_uncorrectable": (198, re.compile(r"offline|uncor", re.IGNORECASE)),
}
BOGUS = re.compile(r"bogus|unknown|not_in_use", re.IGNORECASE)


def read_record(raw: Raw) -> CheckReadings:
    """Add up what the drives say; the one with the least endurance left is displayed."""
    drives = [mapping_or_empty(drive) for drive in list_or_empty(raw.get("drives"))]
    used = [read_endurance_used(drive) for drive in drives]
    known_used = [value for value in used if isinstance(value, float)]
    of_drives = {name: [read(drive) for drive in drives] for name, read in METRICS.items()}
    readings: dict[str, Reading] = {name: add_up_counts(values) for name, values in of_drives.items()}
    readings["percentage_used"] = max(known_used) if known_used else NOT_APPLICABLE
    total = build_check_readings(readings, max(known_used) if known_used else None, "%")
    names = [str(drive.get("name") or "a drive") for drive in drives]
    details = {
        metric: ", ".join(name for name, value in zip(names, values, strict=True) if is_positive(value))
        for metric, values in of_drives.items()
    }
    details["percentage_used"] = ", ".join(
        f"{name} {value:g} %"
        for name, value in zip(names, used, strict=True)
        if isinstance(value, float) and value >= USED_UP
    )
    details["known_firmware_faults"] = "; ".join(
        f"{name} {fault.fault}: {fault.remedy}"
        for name, drive in zip(names, drives, strict=True)
        for fault in list_fatal_faults(drive)
    )
    return explain_if_empty(replace(total, details={name: text for name, text in details.items() if text}))


def is_positive(reading: Reading) -> bool:
    """Return whether a drive's count is above zero."""
    return isinstance(reading, float) and reading > 0


def list_fatal_faults(drive: Raw) -> list[FirmwareFault]:
    """Return the known firmware faults that stop a drive: not those that only count something wrong."""
    return [fault for fault in list_firmware_faults(drive) if fault.is_fatal]


def count_fatal_faults(drive: Raw) -> Reading:
    """Return 1 for a drive whose firmware has a known fault; others are unknown, not sound."""
    return 1.0 if list_fatal_faults(drive) else NOT_APPLICABLE


def read_smart_status(drive: Raw) -> Reading:
    """Return 1 for a drive that predicts its failure; a drive without SMART has no such prediction."""
    passed = mapping_or_empty(drive.get("smart_status")).get("passed")
    if isinstance(passed, bool):
        return float(not passed and not is_status_explained(drive))
    if mapping_or_empty(drive.get("smart_support")).get("available") is False:
        return NOT_APPLICABLE
    messages = "; ".join(str(message) for message in list_or_empty(drive.get("messages")))
    return f"{drive.get('name') or 'a drive'}: {str(messages or drive.get('error') or 'no SMART status').strip()[:120]}"


def is_status_explained(drive: Raw) -> bool:
    """Return whether a drive's failed status says nothing more than that it is worn or hot.

    NVMe: smartctl derives the status from the critical warning. SAS: the drive gives the reason as a sense code. ATA:
    the firmware is known to call an attribute failed that is not.
    """
    bits = read_nvme_field(drive, "critical_warning")
    if isinstance(bits, float) and bits:
        return not find_failing_bits(drive, int(bits))
    failed = [row for row in list_ata_attributes(drive) if row.get("when_failed") == "now"]
    if failed and all(is_wrong_attribute(drive, row) for row in failed):
        return True
    reason = mapping_or_empty(mapping_or_empty(drive.get("smart_status")).get("scsi"))
    return (reason.get("asc"), reason.get("ascq")) == ENDURANCE_MET


def is_wrong_attribute(drive: Raw, row: Raw) -> bool:
    """Return whether a drive's firmware is known to call this attribute failed while the drive works."""
    return any(
        fault.wrong_attribute and fault.wrong_attribute == row.get("id")
        for fault in list_firmware_faults(drive)
    )


def find_failing_bits(drive: Raw, bits: int) -> int:
    """Return the bits of an NVMe drive's critical warning that name a failure.

    A drive also sets the bit for degraded reliability when its rated endurance is used up. If nothing else explains
    it (no media error, enough spare), the drive is worn, and the endurance says so.
    """
    used, spare, threshold = (
        read_nvme_field(drive, name)
        for name in ("percentage_used", "available_spare", "available_spare_threshold")
    )
    is_worn = isinstance(used, float) and used >= USED_UP
    has_spare = isinstance(spare, float) and isinstance(threshold, float) and spare > threshold
    has_media_errors = is_positive(read_nvme_field(drive, "media_errors"))
    explained = DEGRADED if is_worn and has_spare and not has_media_errors else 0
    return bits & FAILING_BITS & ~explained


def read_failing_warning(drive: Raw) -> Reading:
    """Return 1 for an NVMe drive that warns of a failure."""
    bits = read_nvme_field(drive, "critical_warning")
    return float(bool(find_failing_bits(drive, int(bits)))) if isinstance(bits, float) else bits


def read_optional(value: Any) -> Reading:
    """Return a number, or that this drive has no such value."""
    number = to_finite_number(value)
    return NOT_APPLICABLE if number is None else number


def read_nvme_field(drive: Raw, name: str) -> Reading:
    """Return one value of an NVMe drive's health log."""
    log = mapping_or_empty(drive.get("nvme_smart_health_information_log"))
    if name in SHARES and any((to_finite_number(log.get(share)) or 0) > ALL_SPARE for share in SPARE_SHARES):
        return NOT_APPLICABLE
    return read_optional(log.get(name))


def read_other_warning(drive: Raw) -> Reading:
    """Return 1 for an NVMe drive that warns of something else than a failure."""
    bits = read_nvme_field(drive, "critical_warning")
    return float(bool(int(bits) & 0xFF & ~FAILING_BITS)) if isinstance(bits, float) else bits


def read_spare_shortfall(drive: Raw) -> Reading:
    """Return 1 for an NVMe drive with less spare capacity than its own threshold."""
    spare, threshold = (
        read_nvme_field(drive, name) for name in ("available_spare", "available_spare_threshold")
    )
    return (
        float(spare < threshold)
        if isinstance(spare, float) and isinstance(threshold, float)
        else NOT_APPLICABLE
    )


def read_endurance_used(drive: Raw) -> Reading:
    """Return the used share of the rated endurance in percent: NVMe's value, or the one of a SAS drive."""
    used = read_nvme_field(drive, "percentage_used")
    return (
        used
        if isinstance(used, float)
        else read_optional(drive.get("scsi_percentage_used_endurance_indicator"))
    )


def list_ata_attributes(drive: Raw) -> list[Raw]:
    """Return the kept rows of an ATA drive's attribute table."""
    return [mapping_or_empty(row) for row in list_or_empty(drive.get("ata_attributes"))]


def read_ata_counter(drive: Raw, metric: str) -> Reading:
    """Return an ATA counter by its attribute's number, if smartmontools does not call that attribute something else."""
    number, usual_name = ATA_COUNTERS[metric]
    row = next((row for row in list_ata_attributes(drive) if row.get("id") == number), None)
    if row is None:
        return NOT_APPLICABLE
    name, count = row.get("name"), read_optional(row.get("raw"))
    if isinstance(name, str) and (BOGUS.search(name) or not usual_name.search(name)):
        return NOT_APPLICABLE
    limits = (fault.up_to for fault in list_firmware_faults(drive) if fault.wrong_counter == metric)
    return NOT_APPLICABLE if isinstance(count, float) and count <= max(limits, default=-1.0) else count


def count_failed_attributes(drive: Raw) -> Reading:
    """Count the ATA attributes at their threshold now, without those that only say that the drive is old."""
    return count_attributes(
        drive,
        lambda row: (
            row.get("when_failed") == "now"
            and not is_usage_attribute(row)
            and not is_wrong_attribute(drive, row)
        ),
    )


def count_used_up_attributes(drive: Raw) -> Reading:
    """Count the ATA attributes of usage that are at their threshold now."""
    return count_attributes(drive, lambda row: row.get("when_failed") == "now" and is_usage_attribute(row))


def count_once_failed_attributes(drive: Raw) -> Reading:
    """Count the ATA attributes that were at their threshold in the past."""
    return count_attributes(drive, lambda row: row.get("when_failed") == "past")


def count_attributes(drive: Raw, is_counted: Callable[[Raw], bool]) -> Reading:
    """Count the rows of an ATA drive's attribute table; other drives have none."""
    rows = list_ata_attributes(drive)
    return float(sum(map(is_counted, rows))) if rows else NOT_APPLICABLE


def is_usage_attribute(row: Raw) -> bool:
    """Return whether an attribute at its threshold means the end of the design life, not a failure (smartctl(8))."""
    return row.get("prefailure") is False


def count_sas_errors(drive: Raw) -> Reading:
    """Return the uncorrected errors of a SAS drive."""
    return add_up_counts(list_sas_errors(drive))


def list_sas_errors(drive: Raw) -> Iterable[Reading]:
    """Return a SAS drive's uncorrected errors: reads, writes and verifications."""
    log = mapping_or_empty(drive.get("scsi_error_counter_log"))
    return [read_optional(mapping_or_empty(row).get("total_uncorrected_errors")) for row in log.values()]


# What is counted of each drive.
METRICS: dict[str, Callable[[Raw], Reading]] = {
    "failing": read_smart_status,
    "failed_attributes": count_failed_attributes,
    "used_up_attributes": count_used_up_attributes,
    "once_failed_attributes": count_once_failed_attributes,
    "critical_warnings": read_failing_warning,
    "other_warnings": read_other_warning,
    "spare_below_threshold": read_spare_shortfall,
    "media_errors": partial(read_nvme_field, name="media_errors"),
    **{metric: partial(read_ata_counter, metric=metric) for metric in ATA_COUNTERS},
    "grown_defects": lambda drive: read_optional(drive.get("scsi_grown_defect_list")),
    "uncorrected_errors": count_sas_errors,
    "known_firmware_faults": count_fatal_faults,
}
