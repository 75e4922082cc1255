"""Start hosts and check their status."""

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
from gpufleet.rehearsal.rack import host_processes
from gpufleet.rehearsal.rack.faults import find_fault_amount
from gpufleet.rehearsal.rack.layout import DEVICE_TREE
from gpufleet.rehearsal.rack.plan import HostPlan
from gpufleet.rehearsal.rack.shell import (
    Reporter,
    build_system_environment,
    find_last_nonblank_line,
    run_command,
    write_file_atomically,
)

SSH_PORT = 22
SMALL_DISK_MIB = 48
RUNAWAY_LOG_MIB = 256  # the size of the log that fills a small disk
BOOT_LIMIT_S = 120.0
BOOT_LIMIT_EMULATED_S = 400.0
SSH_TIMEOUT_S = 10.0  # generous: a slow host must not be restarted, nor count as silent
POLL_S = 0.25


@dataclass(frozen=True)
class HostRecord:
    """The parameters that a host was started with; whether it runs is checked separately."""

    place: str
    name: str
    label: str
    address: str
    arch: str
    image: str
    faults: tuple[str, ...]
    disks: int = 0

    @classmethod
    def from_plan(cls, plan: HostPlan, image: Path) -> HostRecord:
        """Describe a host that is about to be started."""
        return cls(
            plan.place, plan.name, plan.label, plan.ip_address, plan.arch, image.name, tuple(sorted(plan.faults)),
            plan.disks,
        )  # fmt: skip


@dataclass(frozen=True)
class HostStatus:
    """The status of one host of a rack."""

    place: str
    name: str
    address: str
    arch: str
    faults: tuple[str, ...]
    running: bool
    ssh_answers: bool
    pid: int | None


def start_host(plan: HostPlan, image: Path, drives: Sequence[str]) -> None:
    """Start a prepared and connected host with these block devices; it keeps running after this process ends."""
    write_host_record(plan.folder, HostRecord.from_plan(plan, image))
    script = resources.files("gpufleet.rehearsal") / "data" / "boot-host.sh"
    lower = str(image).replace("\\", "\\\\").replace(":", "\\:").replace(",", "\\,")
    bridge = plan.label.rsplit("-", 2)[0]
    command = [
        *("setsid", "--fork", "nsenter", f"--net={host_processes.NAMESPACES / plan.label}"),
        *("unshare", "--mount", "--propagation", "slave", "sh", str(script)),
        *(lower, str(plan.folder), f"{bridge}/{plan.label}", *map(str, memory_disk_size_mib(plan.faults))),
        *("--boot", f"--machine={plan.label}", f"--hostname={plan.name}", f"--uuid={plan.machine_id}"),
        *(
            f"--network-namespace-path={host_processes.NAMESPACES / plan.label}",
            "--register=no",
            "--keep-unit",
        ),
        "--capability=CAP_NET_ADMIN",  # it has its own network: firewalls and frame sizes are real
        f"--bind-ro={_nspawn_path(plan.folder / DEVICE_TREE)}:/sys/firmware/devicetree",
        *(f"--bind={device}" for device in drives),
        *("--resolv-conf=off", "--timezone=off", "--link-journal=no", "--console=pipe"),
    ]
    log = plan.folder / "console.log"
    # The host must not inherit the credentials in the environment of the shell that boots it.
    # API_VFS_WRITABLE opens the sysctls under net.*, which belong to the host's namespace.
    path = build_system_environment()["PATH"]
    command = ["env", "-i", f"PATH={path}", "LC_ALL=C", "SYSTEMD_NSPAWN_API_VFS_WRITABLE=network", *command]
    run_command(["sh", "-c", 'exec "$@" </dev/null >"$0" 2>&1', str(log), *command])


def memory_disk_size_mib(faults: Collection[str]) -> tuple[int, int]:
    """Return (size beyond the content, free space) in MiB of the root's memory disk; (0, 0) without one."""
    if "disk_full" in faults:
        return SMALL_DISK_MIB, 0
    free_mib = find_fault_amount(faults, "disk_small")
    return (0, 0) if free_mib is None else (free_mib + RUNAWAY_LOG_MIB, free_mib)


def wait_until_hosts_up(plans: Sequence[HostPlan], native_arch: str, report: Reporter) -> None:
    """Wait until every host runs and, if its faults permit it, answers SSH."""
    pending = {plan.label: plan for plan in plans}
    limit_s = BOOT_LIMIT_S if all(plan.arch == native_arch for plan in plans) else BOOT_LIMIT_EMULATED_S
    deadline = time.monotonic() + limit_s
    while pending and time.monotonic() < deadline:
        booted = _find_booted(list(pending.values()))
        for plan in booted:
            del pending[plan.label]
        if booted:
            report(f"hosts: {len(plans) - len(pending)} of {len(plans)} up")
        time.sleep(POLL_S)
    if pending:
        slow = next(iter(pending.values()))
        log = slow.folder / "console.log"
        last_output = find_last_nonblank_line(log.read_text(errors="replace")) if log.exists() else "nothing"
        raise EnvironmentFault(
            f"{len(pending)} of {len(plans)} hosts are not up after {limit_s:.0f} s; "
            f"{slow.place} printed last: {last_output}",
            hint=f"see {log}",
        )


def _find_booted(plans: Sequence[HostPlan]) -> list[HostPlan]:
    """Return the plans with a running host that answers SSH if expected."""
    process_ids = host_processes.find_host_processes(plan.label for plan in plans)
    ssh_by_address = check_ssh_servers([plan.ip_address for plan in plans if plan.should_answer_ssh])
    booted = []
    for plan in plans:
        pid = host_processes.find_init_pid(process_ids.get(plan.label, []))
        if pid is not None and ssh_by_address.get(plan.ip_address, True):
            booted.append(plan)
    return booted


def collect_recorded_host_statuses(records: Iterable[HostRecord]) -> tuple[HostStatus, ...]:
    """Return the current status of recorded hosts."""
    records = list(records)
    ssh_by_address = check_ssh_servers([record.address for record in records])
    process_ids = host_processes.find_host_processes(record.label for record in records)
    return tuple(
        _host_status(
            record,
            ssh_by_address[record.address],
            host_processes.find_init_pid(process_ids.get(record.label, [])),
        )
        for record in records
    )


def _host_status(record: HostRecord, ssh_answers: bool, pid: int | None) -> HostStatus:
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


def write_host_record(folder: Path, record: HostRecord) -> None:
    """Write a host's record atomically."""
    write_file_atomically(_record_path(folder), json.dumps(asdict(record), indent=1) + "\n")


def read_host_record(folder: Path) -> HostRecord | None:
    """Return a host's record, or None if it was never started."""
    path = _record_path(folder)
    return _read_record(path) if path.is_file() else None


def read_host_records(rack_folder: Path) -> list[HostRecord]:
    """Return the records of all hosts, in order of rack and slot."""
    records = [_read_record(path) for path in rack_folder.glob("*.json")]
    return sorted(records, key=lambda r: (r.place.rpartition("/")[0], int(r.place.rpartition("/")[2])))


def remove_unplanned_host_files(rack_folder: Path, plans: Sequence[HostPlan]) -> None:
    """Remove records and files of hosts that are no longer planned."""
    planned = {plan.folder.name for plan in plans}
    for path in rack_folder.glob("*.json"):
        if path.stem not in planned:
            path.unlink()
    for folder in rack_folder.iterdir():
        if folder.is_dir() and folder.name not in planned:
            shutil.rmtree(folder)


def check_ssh_servers(addresses: Sequence[str], timeout_s: float = SSH_TIMEOUT_S) -> dict[str, bool]:
    """Return for each address whether an SSH server answers."""

    async def check_all() -> list[bool]:
        return list(await asyncio.gather(*(has_ssh_greeting(address, timeout_s) for address in addresses)))

    return dict(zip(addresses, asyncio.run(check_all()), strict=True))


async def has_ssh_greeting(address: str, limit_s: float) -> bool:
    try:
        async with asyncio.timeout(limit_s):
            reader, writer = await asyncio.open_connection(address, SSH_PORT)
            greeting = await reader.read(4)
            writer.close()
    except (OSError, TimeoutError):
        return False
    return greeting == b"SSH-"


def _read_record(path: Path) -> HostRecord:
    try:
        fields_read = decode_json_object(read_bytes(path, OWN_STATE), str(path), OWN_STATE)
        known_fields = {
            field.name: fields_read[field.name] for field in fields(HostRecord) if field.name in fields_read
        }
        return HostRecord(**{**known_fields, "faults": tuple(known_fields["faults"])})
    except (ValueError, LookupError, TypeError):  # an InputError is a ValueError
        remedy = "gpufleet rehearse down, then up again"
        raise InputError("is damaged", where=str(path), remedy=remedy) from None


def _record_path(folder: Path) -> Path:
    return folder.parent / f"{folder.name}.json"


def _nspawn_path(path: Path) -> str:
    """Escape the separators of systemd-nspawn."""
    return str(path).replace("\\", "\\\\").replace(":", "\\:")
