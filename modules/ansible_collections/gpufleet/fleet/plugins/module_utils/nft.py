# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""The firewall's rules as nft's text: who is let in, in a table of our own. Nothing here touches the host."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import TypedDict, cast

from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import HEADER, Trouble

TABLE = "inet gpufleet"
# Makes the table if it is missing, so that deleting it never fails; all in one transaction of the kernel.
CLEAR = f"table {TABLE}\ndelete table {TABLE}\n"
# Established connections come first: a change of rules ends nobody's session. Neighbour discovery is ICMP. An answer
# of a DHCPv6 server comes from another address than was asked, so it is no part of a known connection.
# Protocols are numbers, because a small system has no /etc/protocols: 1 and 58 are ICMP, 6 TCP, 17 UDP.
ALWAYS = (
    "ct state established,related accept",
    'iifname "lo" accept',
    "meta l4proto { 1, 58 } accept",
    "ct state invalid drop",
    "ip6 saddr fe80::/10 udp sport 547 udp dport 546 accept",
)
PORTS = range(1, 65536)
INTERFACE = re.compile(r"^[A-Za-z0-9_.-]{1,15}\*?$")


class OpenEntry(TypedDict):
    """One entry of the option ``open``."""

    name: str
    ports: list[str]
    protocol: str
    sources: list[str]


class FirewallOptions(TypedDict):
    """The options that decide which rules a firewall has."""

    ssh_from: list[str]
    peers: list[str]
    open: list[OpenEntry]
    container_interfaces: list[str]
    chains: list[str]


def networks(texts: Iterable[str], where: str) -> dict[str, list[str]]:
    """Return addresses and networks as nft writes them, by family."""
    found: dict[str, list[str]] = {"ip": [], "ip6": []}
    for text in texts:
        try:
            network = ipaddress.ip_network(str(text).partition("%")[0], strict=False)
        except ValueError:
            raise Trouble(f"refused: {where}: {text} is no address and no network") from None
        single = network.num_addresses == 1
        name = str(network.network_address) if single else str(network)
        family = found["ip6" if ":" in name else "ip"]
        if name not in family:
            family.append(name)
    return {family: _widest(names) for family, names in found.items()}


def _widest(names: list[str]) -> list[str]:
    """Leave out what another entry holds already: nft refuses intervals that overlap."""
    # All of one family, which the type of ip_network() does not say.
    merged = ipaddress.collapse_addresses(
        [cast("ipaddress.IPv4Network", ipaddress.ip_network(name)) for name in names]
    )
    return [str(net.network_address) if net.num_addresses == 1 else str(net) for net in merged]


def ports(values: Iterable[str | int], where: str) -> list[str]:
    """Return ports and ranges as nft writes them."""
    found = []
    for value in map(str, values):
        ends = [int(end) for end in value.split("-")] if re.fullmatch(r"\d+(-\d+)?", value) else []
        if not ends or any(end not in PORTS for end in ends) or ends[0] > ends[-1]:
            raise Trouble(f"refused: {where}: {value} is no port and no range of ports")
        found.append(value)
    return found


def admit(sources: list[str], what: str, where: str, comment: str) -> list[str]:
    """Return one line for each family of addresses; no sources means from everywhere."""
    if not sources:
        return [f'{what} accept comment "{comment}"']
    families = networks(sources, where).items()
    return [
        f'{family} saddr {{ {", ".join(names)} }} {f"{what} " if what else ""}accept comment "{comment}"'
        for family, names in families
        if names
    ]


def opened(entry: OpenEntry) -> list[str]:
    """Return the lines of one entry of ``open``."""
    where = f"open: {entry['name']}"
    if not re.fullmatch(r"[\w .:/-]{1,100}", entry["name"]):
        raise Trouble(f"refused: {where}: a name is letters, digits and ._:/- only")
    wanted = f"{entry['protocol']} dport {{ {', '.join(ports(entry['ports'], where))} }}"
    return admit(entry["sources"], wanted, where, entry["name"])


def from_containers(interfaces: list[str]) -> list[str]:
    """Let containers ask the resolver that podman runs on its bridge; what they publish is forwarded, not input."""
    wrong = [name for name in interfaces if not INTERFACE.match(name)]
    if wrong:
        raise Trouble(f"refused: container_interfaces: {wrong[0]} is no name of an interface")
    names = ", ".join(f'"{name}"' for name in interfaces)
    return [f"iifname {{ {names} }} meta l4proto {{ 6, 17 }} th dport 53 accept"] if names else []


def render(wanted: FirewallOptions, operator: tuple[str, int] | None) -> str:
    """Return the whole file. ``operator`` is (address, port) of this run's login, None where it needs no network."""
    if operator is None and not wanted["ssh_from"]:
        raise Trouble("refused: this run does not come in over SSH, and ssh_from names nobody who may")
    lines = list(ALWAYS)
    ssh_ports = sorted({22, operator[1]} if operator else {22})
    ssh = f"tcp dport {{ {', '.join(map(str, ssh_ports))} }}"
    if operator:
        lines += admit([operator[0]], ssh, "this run's address", "login of the last run")
    lines += admit(wanted["ssh_from"], ssh, "ssh_from", "ssh") if wanted["ssh_from"] else []
    lines += admit(wanted["peers"], "", "peers", "peers") if wanted["peers"] else []
    lines += [line for entry in wanted["open"] for line in opened(entry)]
    lines += from_containers(wanted["container_interfaces"])
    body = "".join(f"\t\t{line}\n" for line in lines)
    chains = "".join(f"\n\t{chain.strip()}\n" for chain in wanted["chains"])
    hook = "\t\ttype filter hook input priority filter; policy drop;\n"
    return f"{HEADER}{CLEAR}table {TABLE} {{\n\tchain input {{\n{hook}{body}\t}}\n{chains}}}\n"
