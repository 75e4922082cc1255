"""A node's reports of its drives, before and after they are wiped: typed, because a node may report anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictStr

from gpufleet.boundary import check_shape, printable, validate_model
from gpufleet.errors import InputError

Flag = bool | int | str | None  # lsblk wrote "0" and "1" before version 2.33
Number = int | None


class Disk(BaseModel):
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
    children: list[Disk] | None = None


class Identification(BaseModel):
    """The parts of ``nvme id-ctrl -o json`` that describe what a controller can do."""

    oacs: Number = None
    fna: Number = None
    sanicap: Number = None


class Controller(BaseModel):
    """An NVMe controller."""

    transport: StrictStr | None = None
    id_ctrl: Identification | None = None


class Devices(BaseModel):
    """lsblk's answer."""

    blockdevices: list[Disk] = Field(default_factory=list)


class Drives(BaseModel):
    """What ``gpufleet.fleet.disks`` returns."""

    lsblk: Devices = Field(default_factory=Devices)
    controllers: dict[StrictStr, Controller] = Field(default_factory=dict)
    hdparm: dict[StrictStr, StrictStr] = Field(default_factory=dict)
    by_id: dict[StrictStr, StrictStr | None] = Field(default_factory=dict)
    root: StrictStr | None = None
    container: StrictStr | None = None
    fake_drives: Any = None


class Wiped(BaseModel):
    """One drive's evidence: ``wiped`` must be a boolean, the text "false" is none."""

    path: StrictStr
    serial: StrictStr
    wiped: StrictBool
    why: StrictStr = ""


class Evidence(BaseModel):
    """What ``gpufleet.fleet.wipe`` reports."""

    plan: StrictStr
    complete: StrictBool
    evidence: list[Wiped]
    refused: list[dict[str, Any]]


def check_drives(report: Any) -> None:
    """Raise InputError where a node's account of its drives has another shape than its tools give."""
    validate_model(Drives, report, "the node's drives")


def check_evidence(facts: Any, plan: Mapping[str, Any], node: str) -> None:
    """Raise InputError unless the evidence is of this plan and speaks of each of its drives once."""
    where = f"{node}: evidence of wiping"
    check_shape(facts, where)
    evidence = validate_model(Evidence, facts, where)
    if evidence.plan != plan["id"]:
        raise InputError(f"is of plan {printable(evidence.plan, 40)}, not of {plan['id']}", where=where)
    planned = sorted((drive["path"], drive["serial"]) for drive in plan["drives"])
    if sorted((one.path, one.serial) for one in evidence.evidence) != planned:
        names = ", ".join(printable(one.path, 40) for one in evidence.evidence) or "no drive"
        raise InputError(f"speaks of {names}, the plan of others", where=where, remedy="look at the node")
