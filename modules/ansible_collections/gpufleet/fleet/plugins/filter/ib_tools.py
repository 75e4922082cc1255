# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""The RDMA ports of a host, and which of them are not as they should be. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypedDict

from ansible_collections.gpufleet.fleet.plugins.plugin_utils.role_data import earlier_reasons


class Port(TypedDict):
    """One port; None where the kernel has no such counter."""

    port: str
    link_layer: str
    state: str
    physical_state: str
    rate_gbit: float | None
    link_downed: int | None
    link_error_recovery: int | None


def ports(lines: Iterable[str]) -> list[Port]:
    """Return the ports that the role's script printed, one a line; a dash is an unknown value."""
    return [_port(line.split(" ")) for line in lines]


def _port(fields: list[str]) -> Port:
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


def not_applied(
    host_ports: list[Port],
    *,
    applied: Mapping[str, Any],
    expected_gbit: float,
    expected_ports: int,
    tolerated_flaps: int,
) -> dict[str, Any]:
    """Return the ports that are not as expected, each with its reason; a node with some is still configured."""
    problems = earlier_reasons(applied)
    for port in host_ports:
        if problem := _port_problem(port, expected_gbit, tolerated_flaps):
            problems[port["port"]] = problem
    active = sum(port["state"] == "ACTIVE" for port in host_ports)
    if not host_ports:
        problems["ports"] = "no RDMA ports: no adapter, or its driver is not loaded"
    elif active < expected_ports:
        problems["ports"] = f"{active} ports are active, expected {expected_ports}"
    return problems


def _port_problem(port: Port, expected_gbit: float, tolerated_flaps: int) -> str:
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
        return {"ib_ports": ports, "ib_not_applied": not_applied}
