"""Whether the drivers of a fleet agree: installed, loaded and user space on each host, and hosts with their likes.

Takes what the Ansible module ``gpufleet.fleet.driver_state`` read on each host; touches nothing itself.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gpufleet.drivers.versions import LONGEST_NUMBER


@dataclass(frozen=True, slots=True)
class Host:
    """One host: the group it should agree with, whether it has cards, its driver's state (None: never read)."""

    name: str
    group: str
    cards: bool
    state: Mapping[str, Any] | None

    def get(self, key: str) -> Any:
        """Return one value of the state."""
        return (self.state or {}).get(key)

    @property
    def fabric(self) -> Mapping[str, Any]:
        return self.get("fabric_manager") or {}

    @property
    def cuda(self) -> tuple[str, ...]:
        return tuple(self.get("cuda") or ())


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that does not agree. A ``note`` could not be told here and breaks nothing; a ``skew`` does."""

    host: str
    code: str
    kind: str
    message: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """Every host with its versions, and what does not agree."""

    hosts: tuple[Host, ...]
    findings: tuple[Finding, ...]

    @property
    def skewed(self) -> bool:
        return any(finding.kind == "skew" for finding in self.findings)

    def as_json(self) -> dict[str, Any]:
        """Return the stable shape that ``gpufleet nodes drivers --json`` prints."""
        return {
            "agree": not self.skewed,
            "hosts": [_row(host) for host in self.hosts],
            "findings": [asdict(finding) for finding in self.findings],
        }


def _row(host: Host) -> dict[str, Any]:
    plain = {key: host.get(key) for key in ("installed", "loaded", "user_space")}
    return {
        "name": host.name, "group": host.group, "read": host.state is not None, **plain,
        "fabric_manager": host.fabric.get("version"), "cuda": list(host.cuda), "held": len(host.get("held") or ()),
    }  # fmt: skip


def check(hosts: Iterable[Host]) -> Report:
    """Compare every host with itself and with its group; hosts without cards and without a driver are left out."""
    concerned = sorted(
        (host for host in hosts if host.cards or host.get("installed")),
        key=lambda host: (host.group, host.name),
    )
    groups: dict[str, list[Host]] = defaultdict(list)
    for host in concerned:
        groups[host.group].append(host)
    found = [finding for host in concerned for rule in OWN for finding in rule(host)]
    for members in groups.values():
        found += _against(members, "driver_differs", "driver", lambda host: host.get("installed"))
        found += _against(members, "cuda_differs", "CUDA", lambda host: ", ".join(host.cuda) or None)
    return Report(
        tuple(concerned), tuple(sorted(found, key=lambda one: (one.kind != "skew", one.host, one.code)))
    )


def _against(
    members: Sequence[Host], code: str, what: str, value: Callable[[Host], str | None]
) -> Iterator[Finding]:
    """Compare hosts of a group: the version that most have is right, among equals the newest."""
    counts = Counter(version for host in members if (version := value(host)))
    most = max(counts, key=lambda version: (counts[version], _numbers(version)), default="")
    for host in members:
        version = value(host)
        if version and version != most:
            share = f"{counts[most]} of {sum(counts.values())} in {host.group}"
            message = f"{what} {version}; {share} have {most}"
            yield Finding(host.name, code, "skew", message, "run the play drivers on it")


def _numbers(version: str) -> list[int]:
    return [
        int(part)
        for part in version.replace(", ", ".").split(".")
        if part.isdecimal() and len(part) <= LONGEST_NUMBER
    ]


def _read(host: Host) -> Iterator[Finding]:
    if host.state is None:
        remedy = "gpufleet configure --play driver_check --limit " + host.name
        yield Finding(host.name, "not_read", "note", "its driver was never read", remedy)
    elif host.cards and not host.get("installed"):
        yield Finding(host.name, "no_driver", "skew", "has cards and no driver", "run the play drivers on it")


def _whole(host: Host) -> Iterator[Finding]:
    """Find a package manager that stopped half-way, and a module and its libraries of two versions."""
    if host.get("unsound"):
        names = ", ".join(host.get("unsound"))
        yield Finding(host.name, "half_installed", "skew", f"left half-way: {names}", "dpkg --configure -a")
    module, user = host.get("installed"), host.get("user_space")
    if module and user and module != user:
        message = f"module {module}, libraries {user}: NVML will not answer"
        yield Finding(host.name, "user_space_differs", "skew", message, "run the play drivers on it")


def _loaded(host: Host) -> Iterator[Finding]:
    installed, loaded, container = host.get("installed"), host.get("loaded"), host.get("container")
    if not installed or loaded == installed:
        return
    if loaded:
        message = f"{loaded} is loaded, {installed} is installed"
        yield Finding(host.name, "loaded_differs", "skew", message, "gpufleet configure --play reboot")
    elif container:
        message = f"a container ({container}) loads no module: {installed} is only installed"
        yield Finding(host.name, "not_loaded", "note", message)
    elif not host.get("built"):
        message = f"no module of {installed} is built for kernel {host.get('kernel')}"
        remedy = "dkms status; the kernel's headers " + (
            "are there" if host.get("headers") else "are missing"
        )
        yield Finding(host.name, "module_not_built", "skew", message, remedy)
    else:
        message = f"{installed} is installed, no module is loaded"
        yield Finding(host.name, "not_loaded", "skew", message, "gpufleet configure --play reboot")


def _fabric(host: Host) -> Iterator[Finding]:
    version, installed = host.fabric.get("version"), host.get("installed")
    if version and installed and version != installed:
        message = f"fabric manager {version}, driver {installed}: they must be the same"
        yield Finding(host.name, "fabric_manager_skew", "skew", message, "run the play drivers on it")
    elif version and not host.fabric.get("active"):
        kind = "note" if host.get("container") else "skew"
        yield Finding(
            host.name,
            "fabric_manager_stopped",
            kind,
            "fabric manager does not run",
            "systemctl status nvidia-fabricmanager",
        )
    elif not version and host.get("fabric_manager_wanted"):
        yield Finding(
            host.name,
            "no_fabric_manager",
            "skew",
            "has NVSwitch and no fabric manager",
            "run the play drivers on it",
        )


def _held(host: Host) -> Iterator[Finding]:
    """Find packages that the next unattended upgrade would replace under running jobs."""
    if not host.get("installed"):
        return
    held = set(host.get("held") or ())
    missing = sorted(set(host.get("holds_wanted") or ()) - held)
    if missing or not held:
        names = ", ".join(missing) or "none of its packages is held"
        yield Finding(host.name, "holds_missing", "skew", f"not held: {names}", "run the play drivers on it")


OWN: tuple[Callable[[Host], Iterator[Finding]], ...] = (_read, _whole, _loaded, _fabric, _held)
"""The rules that ask a host alone."""

COLUMNS = ("NODE", "GROUP", "INSTALLED", "LOADED", "LIBRARIES", "FABRIC", "CUDA", "HELD", "FINDING")


def table(report: Report) -> list[str]:
    """Return the report as aligned columns, a line for each finding and for each host without one."""
    by_host: dict[str, list[Finding]] = defaultdict(list)
    for finding in report.findings:
        by_host[finding.host].append(finding)
    rows: list[tuple[str, ...]] = [COLUMNS]
    for host in report.hosts:
        row = _row(host)
        cells = [str(row[key] or "-") for key in ("installed", "loaded", "user_space", "fabric_manager")]
        head = (host.name, host.group, *cells, ", ".join(host.cuda) or "-", str(row["held"] or "-"))
        said = [f"{one.kind}: {one.message}" for one in by_host[host.name]] or ["agrees"]
        rows += [(*head, said[0]), *[("", "", "", "", "", "", "", "", more) for more in said[1:]]]
    widths = [max(len(row[i]) for row in rows) for i in range(len(COLUMNS))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
