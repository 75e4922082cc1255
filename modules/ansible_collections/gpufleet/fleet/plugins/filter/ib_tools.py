# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""RDMA packages, files and units of a host, its ports, and which ports are not as expected. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NotRequired, TypedDict

from ansible.errors import AnsibleFilterError

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.resource_entries import FileEntry, UnitEntry
from ansible_collections.gpufleet.fleet.plugins.plugin_utils.role_data import (
    managed_file_text,
    memlock_limits_text,
    read_not_applied_reasons,
)

LIMITS = "/etc/security/limits.d"
SUBNET_MANAGER = "opensm.service"
VERSION_MARK = "VERSION"  # in the address of DOCA's repository
DOCA_KEY_URL = (
    "https://linux.mellanox.com/public/repo/doca/GPG-KEY-Mellanox.pub"  # NVIDIA's installation scripts
)


class RepositoryKey(TypedDict):
    url: str
    fingerprints: list[str]


class DocaRepository(TypedDict):
    """A repository in the form of gpufleet.fleet.repositories."""

    name: str
    uri: str
    suite: str
    key: RepositoryKey


class RdmaSystemPackages(TypedDict):
    """What an operating system calls the packages, and the address of DOCA; see systems.yml."""

    ib_tools_system_packages: dict[str, list[str]]
    ib_tools_system_opensm: list[str]
    ib_tools_system_doca: NotRequired[str]


class RdmaSettings(TypedDict):
    """The role's settings by their names without the prefix."""

    origin: str
    doca_profile: str
    subnet_manager: bool
    peer_memory: bool
    memlock_users: list[str]


class RdmaResources(TypedDict):
    packages: list[str]
    files: list[FileEntry]
    units: list[UnitEntry]


class RdmaPort(TypedDict):
    """One port; None where the kernel has no such counter."""

    port: str
    link_layer: str
    state: str
    physical_state: str
    rate_gbit: float | None
    link_downed: int | None
    link_error_recovery: int | None


def rdma_resources(system_packages: RdmaSystemPackages, *, settings: RdmaSettings) -> RdmaResources:
    """Return the libraries and diagnostics, the limits of locked memory, and the subnet manager."""
    has_manager = settings["subnet_manager"]
    packages = list(system_packages["ib_tools_system_packages"][settings["origin"]])
    if settings["origin"] == "doca":
        packages.append(settings["doca_profile"])
    if has_manager:
        packages += system_packages["ib_tools_system_opensm"]
    return {
        "packages": packages,
        "files": [
            {"path": LIMITS, "state": "directory"},
            {
                "path": f"{LIMITS}/60-gpufleet-rdma.conf",
                "content": memlock_limits_text(settings["memlock_users"]),
            },
            {
                "path": "/etc/modules-load.d/gpufleet-peermem.conf",
                "state": "file" if settings["peer_memory"] else "absent",
                "content": managed_file_text(["nvidia-peermem"]),
            },
        ],
        "units": [
            {"name": SUBNET_MANAGER, "enabled": has_manager, "state": "started" if has_manager else "stopped"}
        ],
    }


def doca_repositories(
    system_packages: RdmaSystemPackages, *, version: str, fingerprints: list[str], system_name: str
) -> list[DocaRepository]:
    """Return NVIDIA's DOCA repository; raise AnsibleFilterError if its address or a fingerprint is missing."""
    address = system_packages.get("ib_tools_system_doca")
    if address is None:
        raise AnsibleFilterError(f"gpufleet has no DOCA repository for {system_name}")
    if not (version and fingerprints):
        raise AnsibleFilterError(
            "ib_tools_origin is doca: give ib_tools_doca_version and ib_tools_doca_fingerprints"
        )
    return [
        {
            "name": "nvidia-doca",
            "uri": address.replace(VERSION_MARK, version),
            "suite": "./",
            "key": {"url": DOCA_KEY_URL, "fingerprints": fingerprints},
        }
    ]


def parse_rdma_ports(port_lines: Iterable[str]) -> list[RdmaPort]:
    """Return the ports that the role's script printed, one a line; a dash is an unknown value."""
    return [_port(line.split(" ")) for line in port_lines]


def _port(fields: list[str]) -> RdmaPort:
    device, number, link_layer, state, physical_state, rate, downed, recovery = fields[:8]
    return {
        "port": f"{device}/{number}",
        "link_layer": link_layer,
        "state": state,
        "physical_state": physical_state,
        "rate_gbit": None if rate == "-" else float(rate),
        "link_downed": None if downed == "-" else int(downed),
        "link_error_recovery": None if recovery == "-" else int(recovery),
    }


def rdma_not_applied_reasons(
    host_ports: list[RdmaPort],
    *,
    applied: Mapping[str, Any],
    expected_gbit: float,
    expected_ports: int,
    tolerated_flaps: int,
) -> dict[str, Any]:
    """Return the ports that are not as expected, each with its reason; a node with some is still configured."""
    problems = read_not_applied_reasons(applied)
    for port in host_ports:
        if problem := _port_problem(port, expected_gbit, tolerated_flaps):
            problems[port["port"]] = problem
    active = sum(port["state"] == "ACTIVE" for port in host_ports)
    if not host_ports:
        problems["ports"] = "no RDMA ports: no adapter, or its driver is not loaded"
    elif active < expected_ports:
        problems["ports"] = f"{active} ports are active, expected {expected_ports}"
    return problems


def _port_problem(port: RdmaPort, expected_gbit: float, tolerated_flaps: int) -> str:
    downed, rate = port["link_downed"], port["rate_gbit"]
    if port["state"] != "ACTIVE":
        manager = "; no subnet manager answers" if port["state"] == "INIT" else ""
        return f"is {port['state']} ({port['physical_state']}){manager}"
    if downed is not None and downed > tolerated_flaps:
        return f"went down {downed} times since the driver was loaded"
    if rate is not None and rate < expected_gbit:
        return f"runs at {round(rate)} Gbit/s, expected {expected_gbit}"
    return ""


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "ib_resources": rdma_resources,
            "ib_doca_repositories": doca_repositories,
            "ib_ports": parse_rdma_ports,
            "ib_not_applied": rdma_not_applied_reasons,
        }
