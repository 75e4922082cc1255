"""Metrics of drives: the scratch file, fio's verified load, NVMe links and SMART."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from gpufleet.burnin import pi
from gpufleet.burnin.evidence import (
    NOT_APPLICABLE,
    CheckReadings,
    Raw,
    Reading,
    add_up_counts,
    build_check_readings,
    count_missing,
    drop_missing_metrics,
    explain_if_empty,
    list_or_empty,
    mapping_or_empty,
    to_finite_number,
)

MEMORY_BACKED = {"tmpfs", "ramfs"}
# What fio returns for a block that read back wrong (verify.c: EILSEQ), and what a failing drive or mount returns.
FIO_WRONG_DATA = {errno.EILSEQ}
FIO_IO_ERRORS = {
    errno.EIO, errno.ENXIO, errno.ENODEV, errno.ENOSPC, errno.EROFS, errno.EBADE, errno.ENODATA, errno.ETIMEDOUT,
    errno.EUCLEAN, errno.EREMOTEIO,
}  # fmt: skip
# Bits of NVMe's critical_warning, by enum nvme_smart_crit of libnvme. Temperature passes; the others do not.
SPARE_LOW, TOO_HOT, DEGRADED, READ_ONLY, BACKUP_FAILED = 0x01, 0x02, 0x04, 0x08, 0x10
FAILING_BITS = SPARE_LOW | DEGRADED | READ_ONLY | BACKUP_FAILED
LINK_NAMES = ("current_link_{}", "max_link_{}", "port_max_link_{}")
REALLOCATED, REPORTED, PENDING, UNCORRECTABLE = 5, 187, 197, 198


def extract_storage_metrics(raw: Raw) -> CheckReadings:
    """Room, mount state, and what the scratch file and fio showed."""
    root, scratch = mapping_or_empty(raw.get("root")), mapping_or_empty(raw.get("scratch"))
    on_disk = str(scratch.get("type")) not in MEMORY_BACKED
    wrote = "write_error" in raw or to_finite_number(raw.get("write_mb_per_s")) is not None
    state = root.get("read_only")
    metrics = drop_missing_metrics(
        read_only=float(state) if isinstance(state, bool) else None,
        free_share=to_finite_number(root.get("free_share")),
        free_gib=to_finite_number(root.get("free_gib")),
        inodes_free_share=to_finite_number(root.get("inodes_free_share")),
        write_errors=float("write_error" in raw) if wrote else None,
        wrong_mib=to_finite_number(raw.get("wrong_mib")),
        # A file in memory says nothing about the disk.
        write_mb_per_s=to_finite_number(raw.get("write_mb_per_s")) if on_disk else None,
    )
    fio = build_check_readings(read_fio_readings(mapping_or_empty(raw.get("fio"))), None, "")
    return replace(
        fio, metrics={**metrics, **fio.metrics}, display_value=metrics.get("write_mb_per_s"), unit="MB/s"
    )


def read_fio_readings(fio: Raw) -> dict[str, Reading]:
    """Return what fio verified; nothing applies where it was not requested or is not installed."""
    names = ("fio_wrong_data", "fio_io_errors")
    if fio.get("ran") is not True:
        return dict.fromkeys(names, NOT_APPLICABLE)
    code, error, verified = (to_finite_number(fio.get(key)) for key in ("code", "error_code", "read_ios"))
    if error is None:
        text = str(fio.get("error") or fio.get("text") or f"exit {fio.get('code')}")
        return dict.fromkeys(names, f"fio gave no report: {text.strip()[:120]}")
    if error in FIO_WRONG_DATA:
        return {"fio_wrong_data": 1.0, "fio_io_errors": 0.0}
    if error in FIO_IO_ERRORS:
        return {"fio_wrong_data": 0.0, "fio_io_errors": 1.0}
    if error or code:
        return dict.fromkeys(names, f"fio ended with error {error:g}: {str(fio.get('error')).strip()[:120]}")
    if not verified:
        return dict.fromkeys(names, "fio verified no block")
    rates = drop_missing_metrics(
        fio_write_iops=to_finite_number(fio.get("write_iops")),
        fio_write_p99_ms=scale_number(fio.get("write_p99_ns"), 1e-6),
        fio_write_worst_ms=scale_number(fio.get("write_worst_ns"), 1e-6),
    )
    return {"fio_wrong_data": 0.0, "fio_io_errors": 0.0, **rates}


def scale_number(value: Any, factor: float) -> float | None:
    """Return a finite number in another unit, or None."""
    number = to_finite_number(value)
    return None if number is None else number * factor


def extract_smart_metrics(raw: Raw) -> CheckReadings:
    """Read what the drives predict and count: NVMe, ATA and SAS."""
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


def extract_nvme_link_metrics(raw: Raw) -> CheckReadings:
    """Drives against the declared number, and the slowest link."""
    devices = raw.get("devices")
    if not isinstance(devices, list):
        return CheckReadings(unreadable="the record contains no list of drives")
    speeds = collect_link_values(devices, "current_link_speed", pi.parse_pcie_link_gt_per_s)
    lanes = collect_link_values(devices, "current_link_width", pi.parse_pcie_link_lanes)
    metrics = drop_missing_metrics(
        drives=float(len(devices)),
        drives_missing=count_missing(to_finite_number(raw.get("expect_nvme")), float(len(devices))),
        link_gt_per_s=min(speeds) if len(speeds) == len(devices) and devices else None,
        link_lanes=min(lanes) if len(lanes) == len(devices) and devices else None,
    )
    below = build_check_readings(
        {
            "links_slow": add_up_counts(
                is_link_below(device, "speed", pi.parse_pcie_link_gt_per_s) for device in devices
            ),
            "links_narrow": add_up_counts(
                is_link_below(device, "width", pi.parse_pcie_link_lanes) for device in devices
            ),
        },
        None,
        "",
    )
    return CheckReadings({**metrics, **below.metrics}, metrics.get("link_gt_per_s"), "GT/s")


def is_link_below(device: Any, field: str, parse: Callable[[object], float | int | None]) -> Reading:
    """Return 1 for a drive whose link is below what both drive and port can; unknown ports are not judged."""
    facts = mapping_or_empty(device)
    current, own, port = (parse(facts.get(name.format(field))) for name in LINK_NAMES)
    if current is None or own is None or port is None:
        return NOT_APPLICABLE
    return float(current < min(own, port))


def collect_link_values(
    devices: list[Any], name: str, parse: Callable[[object], float | int | None]
) -> list[float]:
    """Return the known values of one field of the drives' links."""
    values = (parse(mapping_or_empty(device).get(name)) for device in devices)
    return [float(value) for value in values if value is not None]
