"""One bridge per rehearsal, and for every host a network namespace with a link to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gpufleet.boundary import ENGINE_DOCUMENT, decode_json
from gpufleet.rehearsal.rack.plan import HostPlan, network_address
from gpufleet.rehearsal.rack.processes import NAMESPACES
from gpufleet.rehearsal.rack.shell import run

SLOW = ("tbf", "rate", "10mbit", "burst", "32kbit", "latency", "50ms")


def ours(prefix: str) -> list[str]:
    """Return the labels of all hosts that have a namespace under this prefix."""
    return sorted(path.name for path in NAMESPACES.glob(f"{prefix}-*")) if NAMESPACES.is_dir() else []


def taken_blocks(own_bridge: str) -> set[int]:
    """Return which /24 networks of the test range others on this machine use."""
    found: set[int] = set()
    for link in _show("ip", "address"):
        for address in link.get("addr_info", []):
            numbers = [int(n) for n in address["local"].split(".")] if address["family"] == "inet" else []
            if link["ifname"] != own_bridge and numbers[:1] == [198] and numbers[1] in {18, 19}:
                found.add((numbers[1] - 18) * 256 + numbers[2])
    return found


def ensure_bridge(name: str, blocks: Iterable[int]) -> None:
    """Set up the rehearsal's bridge with the controller's address in every rack's network."""
    links = {link["ifname"]: link for link in _show("ip", "address")}
    lines = [] if name in links else [f"link add {name} type bridge"]
    present = {info["local"] for info in links.get(name, {}).get("addr_info", [])}
    wanted = [network_address(block, 1) for block in blocks]
    lines += [f"address add {address}/24 dev {name}" for address in wanted if address not in present]
    _batch([*lines, f"link set {name} up"])


def unwired(bridge: str, plans: Sequence[HostPlan]) -> list[HostPlan]:
    """Return the hosts whose link is missing or half made: joining the bridge is the last step of making it."""
    links = _show("ip", "link")
    joined = {link["ifname"] for link in links if link.get("master") == bridge}
    return [p for p in plans if p.label not in joined or not (NAMESPACES / p.label).exists()]


def wire(bridge: str, plans: Sequence[HostPlan]) -> None:
    """Make namespaces and links for hosts; leftovers under the same names are removed first."""
    unwire(p.label for p in plans)
    _batch(f"netns add {p.label}" for p in plans)
    _batch(f"link add {p.label} type veth peer name eth0 address {p.mac} netns {p.label}" for p in plans)
    for plan in plans:
        inside = [
            "link set lo up",
            f"address add {plan.address}/24 dev eth0",
            "link set eth0 up",
            f"route add default via {plan.gateway}",
        ]
        run(["ip", "-n", plan.label, "-batch", "-"], text="\n".join(inside) + "\n")
    _batch(f"link set {p.label} master {bridge} up" for p in plans)


def unwire(labels: Iterable[str]) -> None:
    """Remove links and namespaces; those that do not exist are no matter."""
    labels = list(labels)
    present = {link["ifname"] for link in _show("ip", "link")}
    _batch(f"link delete {label}" for label in labels if label in present)
    _batch(f"netns delete {label}" for label in labels if (NAMESPACES / label).exists())


def apply_faults(plans: Sequence[HostPlan]) -> None:
    """Pull out or plug in each host's cable, and make it slow or not, as its faults say."""
    _batch(f"link set {p.label} {'down' if 'link_down' in p.faults else 'up'}" for p in plans)
    slowed = {queue["dev"] for queue in _show("tc", "qdisc") if queue["kind"] == "tbf"}
    for plan in plans:
        wanted = "slow_link" in plan.faults
        if wanted != (plan.label in slowed):
            verb = ["replace", *SLOW] if wanted else ["delete"]
            run(["tc", "-n", plan.label, "qdisc", verb[0], "dev", "eth0", "root", *verb[1:]])
            run(["tc", "qdisc", verb[0], "dev", plan.label, "root", *verb[1:]])


def remove_bridge(name: str) -> None:
    """Remove the rehearsal's bridge and any link still named after it."""
    links = [link["ifname"] for link in _show("ip", "link")]
    _batch(f"link delete {link}" for link in links if link == name or link.startswith(f"{name}-"))


def _show(tool: str, kind: str) -> Any:
    """Return what iproute2 shows of one kind of object."""
    return decode_json(run([tool, "-json", kind]), f"{tool} {kind}", ENGINE_DOCUMENT)


def _batch(lines: Iterable[str]) -> None:
    text = "".join(f"{line}\n" for line in lines)
    if text:
        run(["ip", "-batch", "-"], text=text)
