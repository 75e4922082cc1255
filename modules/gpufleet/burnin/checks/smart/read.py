"""What drives predict and count: NVMe, ATA and SAS."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

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
REALLOCATED, REPORTED, PENDING, UNCORRECTABLE = 5, 187, 197, 198


def read_record(raw: Raw) -> CheckReadings:
    """Add up what the drives say; the one with the least endurance left is displayed."""
    drives = [mapping_or_empty(drive) for drive in list_or_empty(raw.get("drives"))]
    used: list[Reading] = [read_endurance_used(drive) for drive in drives]
    known_used = [value for value in used if isinstance(value, float)]
    readings: dict[str, Reading] = {
        "failing": add_up_counts(map(read_smart_status, drives)),
        "failed_attributes": add_up_counts(count_failed_attributes(drive, "now") for drive in drives),
        "once_failed_attributes": add_up_counts(count_failed_attributes(drive, "past") for drive in drives),
        "critical_warnings": add_up_counts(read_warning_bits(drive, FAILING_BITS) for drive in drives),
        "other_warnings": add_up_counts(read_warning_bits(drive, 0xFF & ~FAILING_BITS) for drive in drives),
        "spare_below_threshold": add_up_counts(map(read_spare_shortfall, drives)),
        "media_errors": add_up_counts(read_nvme_field(drive, "media_errors") for drive in drives),
        "percentage_used": max(known_used) if known_used else NOT_APPLICABLE,
        "reallocated": add_up_counts(read_ata_counter(drive, REALLOCATED) for drive in drives),
        "reported_uncorrectable": add_up_counts(read_ata_counter(drive, REPORTED) for drive in drives),
        "pending": add_up_counts(read_ata_counter(drive, PENDING) for drive in drives),
        "offline_uncorrectable": add_up_counts(read_ata_counter(drive, UNCORRECTABLE) for drive in drives),
        "grown_defects": add_up_counts(
            read_optional(drive.get("scsi_grown_defect_list")) for drive in drives
        ),
        "uncorrected_errors": add_up_counts(
            reading for drive in drives for reading in list_sas_errors(drive)
        ),
    }
    return explain_if_empty(build_check_readings(readings, max(known_used) if known_used else None, "%"))


def read_smart_status(drive: Raw) -> Reading:
    """Return 1 for a drive that predicts its failure; a drive without SMART has no such prediction."""
    passed = mapping_or_empty(drive.get("smart_status")).get("passed")
    if isinstance(passed, bool):
        return float(not passed)
    if mapping_or_empty(drive.get("smart_support")).get("available") is False:
        return NOT_APPLICABLE
    messages = "; ".join(str(message) for message in list_or_empty(drive.get("messages")))
    return f"{drive.get('name') or 'a drive'}: {str(messages or drive.get('error') or 'no SMART status').strip()[:120]}"


def read_optional(value: Any) -> Reading:
    """Return a number, or that this drive has no such value."""
    number = to_finite_number(value)
    return NOT_APPLICABLE if number is None else number


def read_nvme_field(drive: Raw, name: str) -> Reading:
    """Return one value of an NVMe drive's health log."""
    return read_optional(mapping_or_empty(drive.get("nvme_smart_health_information_log")).get(name))


def read_warning_bits(drive: Raw, mask: int) -> Reading:
    """Return 1 for an NVMe drive that sets one of these bits of its critical warning."""
    bits = read_nvme_field(drive, "critical_warning")
    return float(bool(int(bits) & mask)) if isinstance(bits, float) else bits


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


def read_ata_counter(drive: Raw, number: int) -> Reading:
    """Return an ATA counter by its attribute's number."""
    rows = (row for row in list_ata_attributes(drive) if row.get("id") == number)
    return next((read_optional(row.get("raw")) for row in rows), NOT_APPLICABLE)


def count_failed_attributes(drive: Raw, when: str) -> Reading:
    """Count the ATA attributes that smartctl calls failed ("now" or "past")."""
    rows = list_ata_attributes(drive)
    return float(sum(row.get("when_failed") == when for row in rows)) if rows else NOT_APPLICABLE


def list_sas_errors(drive: Raw) -> Iterable[Reading]:
    """Return a SAS drive's uncorrected errors: reads, writes and verifications."""
    log = mapping_or_empty(drive.get("scsi_error_counter_log"))
    return [read_optional(mapping_or_empty(row).get("total_uncorrected_errors")) for row in log.values()]
