"""The scratch file and fio's verified load; room and mount state."""

from __future__ import annotations

import errno
from dataclasses import replace
from typing import Any

from gpufleet.burnin.evidence import (
    NOT_APPLICABLE,
    CheckReadings,
    Raw,
    Reading,
    build_check_readings,
    drop_missing_metrics,
    mapping_or_empty,
    to_finite_number,
)

MEMORY_BACKED = {"tmpfs", "ramfs"}
# Media that are slower than an NVMe drive: their write rate is a metric of its own, with a bound of its own.
SLOW_MEDIA = ("emmc", "sd", "usb", "network")
# What fio returns for a block that read back wrong (verify.c: EILSEQ), and what a failing drive or mount returns. No
# room (ENOSPC) is not a failing drive: the scratch file and the share of free space decide on that.
FIO_WRONG_DATA = {errno.EILSEQ}
# backend.c: what fio returns when a signal ends it; its report then has no error.
FIO_STOPPED = 128
FIO_IO_ERRORS = {
    errno.EIO, errno.ENXIO, errno.ENODEV, errno.EROFS, errno.EBADE, errno.ENODATA, errno.ETIMEDOUT,
    errno.EUCLEAN, errno.EREMOTEIO,
}  # fmt: skip


def read_record(raw: Raw) -> CheckReadings:
    """Room, mount state, and what the scratch file and fio showed."""
    root, scratch = mapping_or_empty(raw.get("root")), mapping_or_empty(raw.get("scratch"))
    on_disk = str(scratch.get("type")) not in MEMORY_BACKED
    wrote = "write_error" in raw or to_finite_number(raw.get("write_mb_per_s")) is not None
    state = root.get("read_only")
    rate = to_finite_number(raw.get("write_mb_per_s")) if on_disk else None
    medium = scratch.get("medium")
    rates = {"write_mb_per_s": rate}
    if medium in SLOW_MEDIA:
        rates = {f"{medium}_write_mb_per_s": rate}
    metrics = drop_missing_metrics(
        read_only=float(state) if isinstance(state, bool) else None,
        free_share=to_finite_number(root.get("free_share")),
        free_gib=to_finite_number(root.get("free_gib")),
        inodes_free_share=to_finite_number(root.get("inodes_free_share")),
        write_errors=float("write_error" in raw) if wrote else None,
        wrong_mib=to_finite_number(raw.get("wrong_mib")),
        # A file in memory says nothing about the disk.
        **rates,
    )
    fio = build_check_readings(read_fio_readings(mapping_or_empty(raw.get("fio"))), None, "")
    others = {"write_mb_per_s", *(f"{name}_write_mb_per_s" for name in SLOW_MEDIA)} - rates.keys()
    return replace(
        fio,
        metrics={**metrics, **fio.metrics},
        display_value=rate,
        unit="MB/s",
        not_applicable=fio.not_applicable | others,
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
    if error == errno.ENOSPC:
        return dict.fromkeys(names, "fio had no room for its file")
    if code == FIO_STOPPED and not error:
        return dict.fromkeys(names, "fio was stopped by a signal")
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
