"""A node's reports of its drives, before and after they are wiped: typed, because a node may report anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictStr

from gpufleet.boundary import check_value_limits, make_printable, validate_with_pydantic
from gpufleet.errors import InputError

Flag = bool | int | str | None  # lsblk wrote "0" and "1" before version 2.33
Number = int | None


class BlockDevice(BaseModel):
    """A block device as ``lsblk --json --bytes`` shows it, with its children."""

    model_config = ConfigDict(extra="ignore")

    name: StrictStr
    type: StrictStr
    path: StrictStr | None = None
    serial: str | int | None = None
    model: str | None = None
    size: Number = None
    discard: Number = Field(None, alias="disc-max")
    tran: StrictStr | None = None
    fstype: StrictStr | None = None
    rm: Flag = None
    ro: Flag = None
    mountpoints: list[StrictStr | None] | None = None
    children: list[BlockDevice] | None = None


class NvmeControllerIdentification(BaseModel):
    """The parts of ``nvme id-ctrl -o json`` that describe what a controller can do."""

    oacs: Number = None
    fna: Number = None
    sanicap: Number = None


class NvmeController(BaseModel):
    """What ``nvme id-ctrl`` and sysfs report of an NVMe controller."""

    transport: StrictStr | None = None
    id_ctrl: NvmeControllerIdentification | None = None


class LsblkOutput(BaseModel):
    """lsblk's answer."""

    blockdevices: list[BlockDevice] = Field(default_factory=list)


class DriveReport(BaseModel):
    """What ``gpufleet.fleet.disks`` returns."""

    lsblk: LsblkOutput = Field(default_factory=LsblkOutput)
    controllers: dict[StrictStr, NvmeController] = Field(default_factory=dict)
    hdparm: dict[StrictStr, StrictStr] = Field(default_factory=dict)
    by_id: dict[StrictStr, StrictStr | None] = Field(default_factory=dict)
    root: StrictStr | None = None
    container: StrictStr | None = None
    fake_drives: Any = None


class DriveWipeResult(BaseModel):
    """One drive's evidence: ``wiped`` must be a boolean, the text "false" is none."""

    path: StrictStr
    serial: StrictStr
    wiped: StrictBool
    reason: StrictStr = ""


class WipeEvidence(BaseModel):
    """What ``gpufleet.fleet.wipe`` reports."""

    plan: StrictStr
    complete: StrictBool
    evidence: list[DriveWipeResult]
    refused: list[dict[str, Any]]


def check_drive_report(report: Any) -> None:
    """Raise InputError where a node's account of its drives has another shape than its tools give."""
    validate_with_pydantic(DriveReport, report, "the node's drives")


def check_wipe_evidence(reported_evidence: Any, plan: Mapping[str, Any], node_name: str) -> None:
    """Raise InputError unless the evidence is of this plan and speaks of each of its drives once."""
    where = f"{node_name}: evidence of wiping"
    check_value_limits(reported_evidence, where)
    evidence = validate_with_pydantic(WipeEvidence, reported_evidence, where)
    if evidence.plan != plan["id"]:
        raise InputError(
            f"the evidence is of plan {make_printable(evidence.plan, 40)}, not of {plan['id']}", where=where
        )
    planned = sorted((drive["path"], drive["serial"]) for drive in plan["drives"])
    if sorted((wiped_drive.path, wiped_drive.serial) for wiped_drive in evidence.evidence) != planned:
        names = (
            ", ".join(make_printable(wiped_drive.path, 40) for wiped_drive in evidence.evidence) or "no drive"
        )
        raise InputError(
            f"the evidence names {names}, but the plan has other drives",
            where=where,
            remedy="check the drives on the node",
        )
