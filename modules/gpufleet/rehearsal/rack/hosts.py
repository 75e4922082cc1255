"""Starting hosts and knowing how they are."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from importlib import resources
from pathlib import Path

from gpufleet.boundary import OWN_STATE, decode_json_object, read_bytes
from gpufleet.errors import EnvironmentFault, InputError
from gpufleet.rehearsal.rack import processes
from gpufleet.rehearsal.rack.faults import amount
from gpufleet.rehearsal.rack.layout import DEVICE_TREE
from gpufleet.rehearsal.rack.plan import HostPlan
from gpufleet.rehearsal.rack.shell import Say, environment, last_line, run, write_whole

SSH_PORT = 22
SMALL_DISK_MIB = 48
RUNAWAY_MIB = 256  # what a small disk gives back when its runaway log is removed
BOOT_LIMIT_S = 120.0
BOOT_LIMIT_EMULATED_S = 400.0
ANSWER_LIMIT_S = 3.0
POLL_S = 0.25


@dataclass(frozen=True)
class Record:
    """What a host was started as, written down when it is; whether it still runs is asked of the kernel."""

    place: str
    name: str
    label: str
    address: str
    arch: str
    image: str
    faults: tuple[str, ...]
    disks: int = 0

    @classmethod
    def of(cls, plan: HostPlan, image: Path) -> Record:
        """Describe a host that is about to be started."""
        return cls(
            plan.place, plan.name, plan.label, plan.address, plan.arch, image.name, tuple(sorted(plan.faults)),
            plan.disks,
        )  # fmt: skip


@dataclass(frozen=True)
class HostStatus:
    """How one host of a rack is."""

    place: str
    name: str
    address: str
    arch: str
    faults: tuple[str, ...]
    running: bool
    ssh_answers: bool
    pid: int | None


def start(plan: HostPlan, image: Path, drives: Sequence[str]) -> None:
    """Start a host that is laid out and wired, with these block devices; it goes on living when this process ends."""
    write_record(plan.folder, Record.of(plan, image))
    script = resources.files("gpufleet.rehearsal") / "data" / "boot-host.sh"
    lower = str(image).replace("\\", "\\\\").replace(":", "\\:").replace(",", "\\,")
    bridge = plan.label.rsplit("-", 2)[0]
    command = [
        *("setsid", "--fork", "nsenter", f"--net={processes.NAMESPACES / plan.label}"),
        *("unshare", "--mount", "--propagation", "slave", "sh", str(script)),
        *(lower, str(plan.folder), f"{bridge}/{plan.label}", *map(str, small_disk(plan.faults))),
        *("--boot", f"--machine={plan.label}", f"--hostname={plan.name}", f"--uuid={plan.machine_id}"),
        *(f"--network-namespace-path={processes.NAMESPACES / plan.label}", "--register=no", "--keep-unit"),
        "--capability=CAP_NET_ADMIN",  # its network is its own: firewalls and frame sizes are real
        f"--bind-ro={_nspawn_path(plan.folder / DEVICE_TREE)}:/sys/firmware/devicetree",
        *(f"--bind={device}" for device in drives),
        *("--resolv-conf=off", "--timezone=off", "--link-journal=no", "--console=pipe"),
    ]
    log = plan.folder / "console.log"
    # The host lives for hours beside its console: the credentials of the shell that boots it are not its business.
    # API_VFS_WRITABLE opens the sysctls under net.*, which belong to the host's own namespace.
    path = environment()["PATH"]
    command = ["env", "-i", f"PATH={path}", "LC_ALL=C", "SYSTEMD_NSPAWN_API_VFS_WRITABLE=network", *command]
    run(["sh", "-c", 'exec "$@" </dev/null >"$0" 2>&1', str(log), *command])


def small_disk(faults: Collection[str]) -> tuple[int, int]:
    """Return how many MiB a memory disk for the root has beside its content, and how many stay free; 0 is none."""
    if "disk_full" in faults:
        return SMALL_DISK_MIB, 0
    left = amount(faults, "disk_small")
    return (0, 0) if left is None else (left + RUNAWAY_MIB, left)


def wait_until_up(plans: Sequence[HostPlan], native: str, say: Say) -> None:
    """Wait until every host runs and, where its faults let it, answers SSH."""
    waiting = {plan.label: plan for plan in plans}
    limit_s = BOOT_LIMIT_S if all(plan.arch == native for plan in plans) else BOOT_LIMIT_EMULATED_S
    deadline = time.monotonic() + limit_s
    while waiting and time.monotonic() < deadline:
        come = _come_up(list(waiting.values()))
        for plan in come:
            del waiting[plan.label]
        if come:
            say(f"hosts: {len(plans) - len(waiting)} of {len(plans)} up")
        time.sleep(POLL_S)
    if waiting:
        slow = next(iter(waiting.values()))
        log = slow.folder / "console.log"
        said = last_line(log.read_text(errors="replace")) if log.exists() else "nothing"
        raise EnvironmentFault(
            f"{len(waiting)} of {len(plans)} hosts are not up after {limit_s:.0f} s; {slow.place} says: {said}",
            hint=f"see {log}",
        )


def _come_up(plans: Sequence[HostPlan]) -> list[HostPlan]:
    """Return those of the plans that are up by now."""
    inside = processes.inside(plan.label for plan in plans)
    answers = ssh_answers([plan.address for plan in plans if not plan.silent])
    up = []
    for plan in plans:
        pid = processes.leader(inside.get(plan.label, []))
        if pid is not None and answers.get(plan.address, True):
            up.append(plan)
    return up


def statuses(records: Iterable[Record]) -> tuple[HostStatus, ...]:
    """Look at how recorded hosts are now."""
    records = list(records)
    answers = ssh_answers([record.address for record in records])
    inside = processes.inside(record.label for record in records)
    return tuple(
        _status(record, answers[record.address], processes.leader(inside.get(record.label, [])))
        for record in records
    )


def _status(record: Record, ssh_answers: bool, pid: int | None) -> HostStatus:
    return HostStatus(
        record.place,
        record.name,
        record.address,
        record.arch,
        record.faults,
        running=pid is not None,
        ssh_answers=ssh_answers,
        pid=pid,
    )


def write_record(folder: Path, record: Record) -> None:
    """Write a host's record whole or not at all."""
    write_whole(_record_path(folder), json.dumps(asdict(record), indent=1) + "\n")


def read_record(folder: Path) -> Record | None:
    """Read a host's record, if it was ever started."""
    path = _record_path(folder)
    return _read_record(path) if path.is_file() else None


def read_records(rack_folder: Path) -> list[Record]:
    """Read the records of all hosts, in order of rack and slot."""
    found = [_read_record(path) for path in rack_folder.glob("*.json")]
    return sorted(found, key=lambda r: (r.place.rpartition("/")[0], int(r.place.rpartition("/")[2])))


def forget_others(rack_folder: Path, plans: Sequence[HostPlan]) -> None:
    """Remove records and files of hosts that are no longer planned."""
    planned = {plan.folder.name for plan in plans}
    for path in rack_folder.glob("*.json"):
        if path.stem not in planned:
            path.unlink()
    for folder in rack_folder.iterdir():
        if folder.is_dir() and folder.name not in planned:
            shutil.rmtree(folder)


def ssh_answers(addresses: Sequence[str], limit_s: float = ANSWER_LIMIT_S) -> dict[str, bool]:
    """Tell for each address whether an SSH server greets there."""

    async def ask() -> list[bool]:
        return list(await asyncio.gather(*(_greets(address, limit_s) for address in addresses)))

    return dict(zip(addresses, asyncio.run(ask()), strict=True))


async def _greets(address: str, limit_s: float) -> bool:
    try:
        async with asyncio.timeout(limit_s):
            reader, writer = await asyncio.open_connection(address, SSH_PORT)
            greeting = await reader.read(4)
            writer.close()
    except (OSError, TimeoutError):
        return False
    return greeting == b"SSH-"


def _read_record(path: Path) -> Record:
    try:
        written = decode_json_object(read_bytes(path, OWN_STATE), str(path), OWN_STATE)
        known = {field.name: written[field.name] for field in fields(Record) if field.name in written}
        return Record(**{**known, "faults": tuple(known["faults"])})
    except (ValueError, LookupError, TypeError):  # an InputError is a ValueError
        remedy = "gpufleet rehearse down, then up again"
        raise InputError("is damaged", where=str(path), remedy=remedy) from None


def _record_path(folder: Path) -> Path:
    return folder.parent / f"{folder.name}.json"


def _nspawn_path(path: Path) -> str:
    """Escape what systemd-nspawn would take for a separator."""
    return str(path).replace("\\", "\\\\").replace(":", "\\:")
