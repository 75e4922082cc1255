"""What a network boot server is given: dnsmasq's configuration and the nodes' TFTP folders. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from gpufleet.errors import InputError
from gpufleet.fleet import NetbootServer, Rack, RackNetwork, RackNode


def tftp_folder_name(netboot: NetbootServer, node: RackNode) -> str:
    """Return the folder that the node's bootloader asks for: its serial's last 8 digits, or its MAC with hyphens."""
    known = node.serial if netboot.prefix == "serial" else node.mac
    if known is None:
        remedy = f"set its {netboot.prefix} under nodes, or choose the other boot.netboot.prefix"
        raise InputError(
            f"{node.name} has no {netboot.prefix}, by which TFTP folders are named", remedy=remedy
        )
    return known[-8:].lower() if netboot.prefix == "serial" else known.replace(":", "-")


def build_dnsmasq_config(
    rack: Rack, network: RackNetwork, netboot: NetbootServer, nodes: Sequence[RackNode]
) -> str:
    """Return a dnsmasq file: TFTP for these nodes, in addition to the network's DHCP server."""
    lines = [
        f"# Network boot of rack {rack.name}; written by gpufleet nodes first-boot.",
        "# A proxy answers together with the network's own DHCP server and gives no addresses.",
        "port=0",
        f"dhcp-range={network.cidr.network_address},proxy",
        "enable-tftp",
        f"tftp-root={netboot.tftp_root}",
        'pxe-service=0,"Raspberry Pi Boot"',
        "# Each folder holds a copy of the image's boot partition, with the node's lines appended:",
        *(f"#   {netboot.tftp_root}/{tftp_folder_name(netboot, node)}/  {node.name}" for node in nodes),
    ]
    return "\n".join(lines) + "\n"


def build_nfs_exports(netboot: NetbootServer, nodes: Sequence[RackNode]) -> str:
    """Return lines for the NFS server's exports: each node's root, for that node's address alone."""
    lines = [
        f"{netboot.nfs_root.format(name=node.name)} {node.address}(rw,sync,no_subtree_check,no_root_squash)"
        for node in nodes
    ]
    return "\n".join(lines) + "\n"
