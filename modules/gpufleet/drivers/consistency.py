"""Check the consistency of drivers: installed, loaded and user space on each host, and hosts within a group.

Input: the driver state that the Ansible module ``gpufleet.fleet.driver_state`` read on each host.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gpufleet.drivers.version import MAX_NUMBER_DIGITS
from gpufleet.text_table import align_columns


@dataclass(frozen=True, slots=True)
class HostDriverState:
    """One host: its group, whether it has cards, and its driver's state (None: never read)."""

    name: str
    group: str
    cards: bool
    state: Mapping[str, Any] | None

    def read_state_value(self, key: str) -> Any:
        """Return one value of the state."""
        return (self.state or {}).get(key)

    @property
    def fabric_manager_state(self) -> Mapping[str, Any]:
        return self.read_state_value("fabric_manager") or {}

    @property
    def fabric_service_name(self) -> str:
        """Return what the host runs at the driver's version: IMEX on nodes of an NVLink rack."""
        return "IMEX" if self.fabric_manager_state.get("unit") == "nvidia-imex" else "fabric manager"

    @property
    def installed_cuda_versions(self) -> tuple[str, ...]:
        return tuple(self.read_state_value("cuda") or ())


@dataclass(frozen=True, slots=True)
class DriverFinding:
    """One inconsistency. A ``skew`` breaks something; a ``note`` does not, or could not be checked."""

    host: str
    code: str
    kind: str
    message: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class DriverConsistencyReport:
    """Every host with its versions, and the findings."""

    hosts: tuple[HostDriverState, ...]
    findings: tuple[DriverFinding, ...]

    @property
    def has_skew_finding(self) -> bool:
        return any(finding.kind == "skew" for finding in self.findings)

    def as_json(self) -> dict[str, Any]:
        """Return the stable shape that ``gpufleet nodes drivers --json`` prints."""
        return {
            "agree": not self.has_skew_finding,
            "hosts": [_host_as_dict(host) for host in self.hosts],
            "findings": [asdict(finding) for finding in self.findings],
        }


def _host_as_dict(host: HostDriverState) -> dict[str, Any]:
    versions = {key: host.read_state_value(key) for key in ("installed", "loaded", "user_space")}
    return {
        "name": host.name, "group": host.group, "read": host.state is not None, **versions,
        "fabric_manager": host.fabric_manager_state.get("version"), "cuda": list(host.installed_cuda_versions),
        "held": len(host.read_state_value("held") or ()),
    }  # fmt: skip


def check_driver_consistency(hosts: Iterable[HostDriverState]) -> DriverConsistencyReport:
    """Compare the versions on each host and within each group; hosts without cards and driver are left out."""
    hosts_with_drivers = sorted(
        (host for host in hosts if host.cards or host.read_state_value("installed")),
        key=lambda host: (host.group, host.name),
    )
    groups: dict[str, list[HostDriverState]] = defaultdict(list)
    for host in hosts_with_drivers:
        groups[host.group].append(host)
    findings = [finding for host in hosts_with_drivers for rule in HOST_RULES for finding in rule(host)]
    for members in groups.values():
        findings += _compare_group(
            members, "driver_differs", "driver", lambda host: host.read_state_value("installed")
        )
        findings += _compare_group(
            members, "cuda_differs", "CUDA", lambda host: ", ".join(host.installed_cuda_versions) or None
        )
    return DriverConsistencyReport(
        tuple(hosts_with_drivers),
        tuple(sorted(findings, key=lambda finding: (finding.kind != "skew", finding.host, finding.code))),
    )


def _compare_group(
    members: Sequence[HostDriverState],
    code: str,
    subject: str,
    read_version: Callable[[HostDriverState], str | None],
) -> Iterator[DriverFinding]:
    """Compare hosts of a group: the most common version is expected, of equally common ones the newest."""
    counts = Counter(version for host in members if (version := read_version(host)))
    usual_version = max(counts, key=lambda version: (counts[version], _version_numbers(version)), default="")
    for host in members:
        version = read_version(host)
        if version and version != usual_version:
            majority = f"{counts[usual_version]} of {sum(counts.values())} in {host.group}"
            message = f"{subject} {version}; {majority} have {usual_version}"
            yield DriverFinding(host.name, code, "skew", message, "run the play `drivers` on the host")


def _version_numbers(version: str) -> list[int]:
    return [
        int(part)
        for part in version.replace(", ", ".").split(".")
        if part.isdecimal() and len(part) <= MAX_NUMBER_DIGITS
    ]


def _check_presence(host: HostDriverState) -> Iterator[DriverFinding]:
    if host.state is None:
        remedy = "gpufleet configure --play driver_check --limit " + host.name
        yield DriverFinding(
            host.name, "not_read", "note", "the driver state of the host was never read", remedy
        )
    elif host.cards and not host.read_state_value("installed"):
        yield DriverFinding(
            host.name,
            "no_driver",
            "skew",
            "the host has cards but no driver",
            "run the play `drivers` on the host",
        )


def _check_half_installed(host: HostDriverState) -> Iterator[DriverFinding]:
    """Find partly installed packages, and a kernel module and libraries of different versions."""
    if host.read_state_value("unsound"):
        names = ", ".join(host.read_state_value("unsound"))
        yield DriverFinding(
            host.name,
            "half_installed",
            "skew",
            f"packages are only partly installed: {names}",
            "dpkg --configure -a",
        )
    module, user = host.read_state_value("installed"), host.read_state_value("user_space")
    if module and user and module != user:
        message = f"module {module}, libraries {user}: NVML will not work"
        yield DriverFinding(
            host.name, "user_space_differs", "skew", message, "run the play `drivers` on the host"
        )


def _check_loaded(host: HostDriverState) -> Iterator[DriverFinding]:
    installed, loaded, container = (
        host.read_state_value("installed"),
        host.read_state_value("loaded"),
        host.read_state_value("container"),
    )
    if not installed or loaded == installed:
        return
    if loaded:
        message = f"{loaded} is loaded, {installed} is installed"
        yield DriverFinding(host.name, "loaded_differs", "skew", message, "gpufleet configure --play reboot")
    elif container:
        message = f"a container ({container}) loads no module: {installed} is only installed"
        yield DriverFinding(host.name, "not_loaded", "note", message)
    elif not host.read_state_value("built"):
        message = f"no module of {installed} is built for kernel {host.read_state_value('kernel')}"
        remedy = "dkms status; the kernel's headers " + (
            "are there" if host.read_state_value("headers") else "are missing"
        )
        yield DriverFinding(host.name, "module_not_built", "skew", message, remedy)
    else:
        message = f"{installed} is installed, no module is loaded"
        yield DriverFinding(host.name, "not_loaded", "skew", message, "gpufleet configure --play reboot")


def _check_fabric_manager(host: HostDriverState) -> Iterator[DriverFinding]:
    version, installed = host.fabric_manager_state.get("version"), host.read_state_value("installed")
    if version and installed and version != installed:
        message = f"{host.fabric_service_name} {version}, driver {installed}: they must be the same"
        yield DriverFinding(
            host.name, "fabric_manager_skew", "skew", message, "run the play `drivers` on the host"
        )
    elif version and not host.fabric_manager_state.get("active"):
        kind = "note" if host.read_state_value("container") else "skew"
        yield DriverFinding(
            host.name,
            "fabric_manager_stopped",
            kind,
            f"{host.fabric_service_name} is not running",
            f"systemctl status {host.fabric_manager_state.get('unit') or 'nvidia-fabricmanager'}",
        )
    elif not version and host.read_state_value("fabric_manager_wanted"):
        yield DriverFinding(
            host.name,
            "no_fabric_manager",
            "skew",
            "the plan has a fabric manager or IMEX, but the host has neither",
            "run the play `drivers` on the host",
        )


def _check_holds(host: HostDriverState) -> Iterator[DriverFinding]:
    """Find missing holds: unattended upgrades would replace these packages under running jobs."""
    if not host.read_state_value("installed") or host.read_state_value("managed_by") == "elsewhere":
        return  # an image's driver has no packages that an upgrade could replace
    held_packages = set(host.read_state_value("held") or ())
    missing = sorted(set(host.read_state_value("holds_wanted") or ()) - held_packages)
    if missing or not held_packages:
        names = ", ".join(missing)
        yield DriverFinding(
            host.name,
            "holds_missing",
            "skew",
            f"packages are not held: {names}" if names else "no driver package is held",
            "run the play `drivers` on the host",
        )


HOST_RULES: tuple[Callable[[HostDriverState], Iterator[DriverFinding]], ...] = (
    _check_presence,
    _check_half_installed,
    _check_loaded,
    _check_fabric_manager,
    _check_holds,
)
"""The rules for a single host."""

COLUMNS = ("NODE", "GROUP", "INSTALLED", "LOADED", "LIBRARIES", "FABRIC", "CUDA", "HELD", "FINDING")


def format_consistency_report(report: DriverConsistencyReport) -> list[str]:
    """Return the report as aligned columns: a line for each finding, and for each host without findings."""
    by_host: dict[str, list[DriverFinding]] = defaultdict(list)
    for finding in report.findings:
        by_host[finding.host].append(finding)
    rows: list[tuple[str, ...]] = []
    for host in report.hosts:
        row = _host_as_dict(host)
        cells = [str(row[key] or "-") for key in ("installed", "loaded", "user_space", "fabric_manager")]
        host_cells = (
            host.name,
            host.group,
            *cells,
            ", ".join(host.installed_cuda_versions) or "-",
            str(row["held"] or "-"),
        )
        messages = [f"{finding.kind}: {finding.message}" for finding in by_host[host.name]] or ["agrees"]
        rows += [
            (*host_cells, messages[0]),
            *[("", "", "", "", "", "", "", "", message) for message in messages[1:]],
        ]
    return align_columns(COLUMNS, rows)
