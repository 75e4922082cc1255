# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: Apache-2.0
"""The firewall's rules as nft's text: who is let in, in a table of our own. Nothing here touches the host."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import TypedDict, cast

from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import HEADER, HostError

TABLE = "inet gpufleet"
# Makes the table if it is missing, so that deleting it never fails; all in one transaction of the kernel.
CLEAR_TABLE = f"table {TABLE}\ndelete table {TABLE}\n"
# Established connections come first: a change of rules closes no session. Neighbour discovery is ICMP. An answer
# of a DHCPv6 server comes from another address than was asked, so it does not belong to a known connection.
# Protocols are numbers, because a small system has no /etc/protocols: 1 and 58 are ICMP, 6 TCP, 17 UDP.
BASE_RULES = (
    "ct state established,related accept",
    'iifname "lo" accept',
    "meta l4proto { 1, 58 } accept",
    "ct state invalid drop",
    "ip6 saddr fe80::/10 udp sport 547 udp dport 546 accept",
)
PORTS = range(1, 65536)
INTERFACE = re.compile(r"^[A-Za-z0-9_.-]{1,15}\*?$")


class OpenPortEntry(TypedDict):
    """One entry of the option ``open``."""

    name: str
    ports: list[str]
    protocol: str
    sources: list[str]


class FirewallOptions(TypedDict):
    """The options that decide which rules a firewall has."""

    ssh_from: list[str]
    peers: list[str]
    open: list[OpenPortEntry]
    container_interfaces: list[str]
    chains: list[str]


def parse_networks_by_family(network_texts: Iterable[str], where: str) -> dict[str, list[str]]:
    """Return addresses and networks as nft writes them, by family."""
    by_family: dict[str, list[str]] = {"ip": [], "ip6": []}
    for text in network_texts:
        try:
            network = ipaddress.ip_network(str(text).partition("%")[0], strict=False)
        except ValueError:
            raise HostError(f"{where}: {text} is not an address or a network") from None
        single = network.num_addresses == 1
        name = str(network.network_address) if single else str(network)
        family = by_family["ip6" if ":" in name else "ip"]
        if name not in family:
            family.append(name)
    return {family: _collapse(names) for family, names in by_family.items()}


def _collapse(names: list[str]) -> list[str]:
    """Return the networks without those that another one contains: nft rejects overlapping intervals."""
    # All of one family, which the type of ip_network() does not say.
    merged = ipaddress.collapse_addresses(
        [cast("ipaddress.IPv4Network", ipaddress.ip_network(name)) for name in names]
    )
    return [str(net.network_address) if net.num_addresses == 1 else str(net) for net in merged]


def parse_port_ranges(values: Iterable[str | int], where: str) -> list[str]:
    """Return ports and ranges as nft writes them."""
    accepted = []
    for value in map(str, values):
        bounds = [int(end) for end in value.split("-")] if re.fullmatch(r"\d+(-\d+)?", value) else []
        if not bounds or any(end not in PORTS for end in bounds) or bounds[0] > bounds[-1]:
            raise HostError(f"{where}: {value} is not a port or a range of ports")
        accepted.append(value)
    return accepted


def build_accept_rules(sources: list[str], match: str, where: str, comment: str) -> list[str]:
    """Return one rule for each address family; without sources one rule for every address."""
    if not sources:
        return [f'{match} accept comment "{comment}"']
    families = parse_networks_by_family(sources, where).items()
    return [
        f'{family} saddr {{ {", ".join(names)} }} {f"{match} " if match else ""}accept comment "{comment}"'
        for family, names in families
        if names
    ]


def build_open_port_rules(entry: OpenPortEntry) -> list[str]:
    """Return the rules of one entry of ``open``."""
    where = f"open: {entry['name']}"
    if not re.fullmatch(r"[\w .:/-]{1,100}", entry["name"]):
        raise HostError(f"{where}: a name may have letters, digits, blanks and ._:/- only")
    match = f"{entry['protocol']} dport {{ {', '.join(parse_port_ranges(entry['ports'], where))} }}"
    return build_accept_rules(entry["sources"], match, where, entry["name"])


def build_container_dns_rules(interfaces: list[str]) -> list[str]:
    """Return the rule that lets containers use podman's resolver; their published ports are forwarded, not input."""
    invalid = [name for name in interfaces if not INTERFACE.match(name)]
    if invalid:
        raise HostError(f"container_interfaces: {invalid[0]} is not the name of an interface")
    names = ", ".join(f'"{name}"' for name in interfaces)
    return [f"iifname {{ {names} }} meta l4proto {{ 6, 17 }} th dport 53 accept"] if names else []


def render_nft_rules(options: FirewallOptions, operator_address: tuple[str, int] | None) -> str:
    """Return the text of the rules file.

    ``operator_address`` is the address of this run's login and sshd's port, or None for a run without a network."""
    if operator_address is None and not options["ssh_from"]:
        raise HostError(
            "ssh_from is empty, and this run does not use SSH: with these rules nobody could log in"
        )
    lines = list(BASE_RULES)
    ssh_ports = sorted({22, operator_address[1]} if operator_address else {22})
    ssh = f"tcp dport {{ {', '.join(map(str, ssh_ports))} }}"
    if operator_address:
        lines += build_accept_rules([operator_address[0]], ssh, "this run's address", "login of the last run")
    lines += build_accept_rules(options["ssh_from"], ssh, "ssh_from", "ssh") if options["ssh_from"] else []
    lines += build_accept_rules(options["peers"], "", "peers", "peers") if options["peers"] else []
    lines += [line for entry in options["open"] for line in build_open_port_rules(entry)]
    lines += build_container_dns_rules(options["container_interfaces"])
    body = "".join(f"\t\t{line}\n" for line in lines)
    chains = "".join(f"\n\t{chain.strip()}\n" for chain in options["chains"])
    hook = "\t\ttype filter hook input priority filter; policy drop;\n"
    return f"{HEADER}{CLEAR_TABLE}table {TABLE} {{\n\tchain input {{\n{hook}{body}\t}}\n{chains}}}\n"
