"""One bridge per rehearsal, and a network namespace with a link to it for every host."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gpufleet.boundary import ENGINE_DOCUMENT, decode_json
from gpufleet.rehearsal.rack.host_processes import NAMESPACES
from gpufleet.rehearsal.rack.plan import HostPlan, address_in_network
from gpufleet.rehearsal.rack.shell import run_command

SLOW_LINK = ("tbf", "rate", "10mbit", "burst", "32kbit", "latency", "50ms")


def list_host_labels(prefix: str) -> list[str]:
    """Return the labels of all hosts that have a namespace under this prefix."""
    return sorted(path.name for path in NAMESPACES.glob(f"{prefix}-*")) if NAMESPACES.is_dir() else []


def find_used_network_numbers(excluded_bridge: str) -> set[int]:
    """Return the numbers of the /24 networks of the test range that other bridges of this machine use."""
    blocks: set[int] = set()
    for link in _query("ip", "address"):
        for address in link.get("addr_info", []):
            numbers = [int(n) for n in address["local"].split(".")] if address["family"] == "inet" else []
            if link["ifname"] != excluded_bridge and numbers[:1] == [198] and numbers[1] in {18, 19}:
                blocks.add((numbers[1] - 18) * 256 + numbers[2])
    return blocks


def ensure_bridge(name: str, network_numbers: Iterable[int]) -> None:
    """Create the rehearsal's bridge with the controller's address in every rack's network."""
    links = {link["ifname"]: link for link in _query("ip", "address")}
    lines = [] if name in links else [f"link add {name} type bridge"]
    present = {info["local"] for info in links.get(name, {}).get("addr_info", [])}
    gateways = [address_in_network(block, 1) for block in network_numbers]
    lines += [f"address add {address}/24 dev {name}" for address in gateways if address not in present]
    _run_batch([*lines, f"link set {name} up"])


def find_unconnected_hosts(bridge: str, plans: Sequence[HostPlan]) -> list[HostPlan]:
    """Return the hosts with a missing or incomplete link: joining the bridge is the last step of its creation."""
    links = _query("ip", "link")
    joined = {link["ifname"] for link in links if link.get("master") == bridge}
    return [p for p in plans if p.label not in joined or not (NAMESPACES / p.label).exists()]


def connect_hosts(bridge: str, plans: Sequence[HostPlan]) -> None:
    """Create namespaces and links for hosts; remove leftovers with the same names first."""
    disconnect_hosts(p.label for p in plans)
    _run_batch(f"netns add {p.label}" for p in plans)
    _run_batch(f"link add {p.label} type veth peer name eth0 address {p.mac} netns {p.label}" for p in plans)
    for plan in plans:
        commands = [
            "link set lo up",
            f"address add {plan.ip_address}/24 dev eth0",
            "link set eth0 up",
            f"route add default via {plan.gateway_address}",
        ]
        run_command(["ip", "-n", plan.label, "-batch", "-"], stdin_text="\n".join(commands) + "\n")
    _run_batch(f"link set {p.label} master {bridge} up" for p in plans)


def disconnect_hosts(labels: Iterable[str]) -> None:
    """Remove links and namespaces; ignore missing ones."""
    labels = list(labels)
    present = {link["ifname"] for link in _query("ip", "link")}
    _run_batch(f"link delete {label}" for label in labels if label in present)
    _run_batch(f"netns delete {label}" for label in labels if (NAMESPACES / label).exists())


def apply_link_faults(plans: Sequence[HostPlan]) -> None:
    """Set each host's link up or down and limit its speed, according to its faults."""
    _run_batch(f"link set {p.label} {'down' if 'link_down' in p.faults else 'up'}" for p in plans)
    slow_labels = {queue["dev"] for queue in _query("tc", "qdisc") if queue["kind"] == "tbf"}
    for plan in plans:
        is_slow = "slow_link" in plan.faults
        if is_slow != (plan.label in slow_labels):
            verb = ["replace", *SLOW_LINK] if is_slow else ["delete"]
            run_command(["tc", "-n", plan.label, "qdisc", verb[0], "dev", "eth0", "root", *verb[1:]])
            run_command(["tc", "qdisc", verb[0], "dev", plan.label, "root", *verb[1:]])


def remove_bridge(name: str) -> None:
    """Remove the rehearsal's bridge and remaining links with its name as prefix."""
    links = [link["ifname"] for link in _query("ip", "link")]
    _run_batch(f"link delete {link}" for link in links if link == name or link.startswith(f"{name}-"))


def _query(tool: str, kind: str) -> Any:
    """Return one kind of object from iproute2's JSON output."""
    return decode_json(run_command([tool, "-json", kind]), f"{tool} {kind}", ENGINE_DOCUMENT)


def _run_batch(lines: Iterable[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    if text:
        run_command(["ip", "-batch", "-"], stdin_text=text)
