"""A rack's first boot as files: for each node what goes onto its disk, for the rack what goes to servers and to us."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gpufleet.errors import InputError
from gpufleet.fleet import FirstBootSettings, NetbootServer, Rack, RackNode
from gpufleet.nodes.first_boot import cloud_init, firmware, netboot
from gpufleet.nodes.first_boot.cloud_init import SshHostKey

SECRET = ("user-data",)  # holds the host key's private half


@dataclass(frozen=True)
class NodeFirstBootFiles:
    """One node's files, by name."""

    node: RackNode
    instance_id: str
    files: Mapping[str, str]
    public_host_key: str | None = None

    def known_hosts_lines(self) -> list[str]:
        """Return lines for ssh's known_hosts; none where the node makes its own key."""
        if self.public_host_key is None:
            return []
        kind, body = self.public_host_key.split()[:2]
        return [f"{where} {kind} {body}" for where in (self.node.address, self.node.name) if where]


@dataclass(frozen=True)
class RackFirstBootFiles:
    """All files of a rack, by path in the export's folder; ``notes`` list requested settings that are not written."""

    rack: Rack
    seeds: tuple[NodeFirstBootFiles, ...]
    shared: Mapping[str, str]
    notes: tuple[str, ...] = field(default=())

    def files_by_path(self) -> dict[str, str]:
        """Return every file by its path; the manifest names each of them with its digest."""
        files_by_path = {
            f"{seed.node.name}/{name}": text for seed in self.seeds for name, text in seed.files.items()
        }
        files_by_path |= self.shared
        return files_by_path | {"manifest.json": self._manifest(files_by_path)}

    def known_hosts_lines(self) -> list[str]:
        """Return the nodes' lines for ssh's known_hosts."""
        return [line for seed in self.seeds for line in seed.known_hosts_lines()]

    def _manifest(self, files: Mapping[str, str]) -> str:
        boot = _boot(self.rack)
        family = firmware.load_data_table("families")[boot.image.family if boot.image else "raspios"]
        manifest = {
            "gpufleet": "first boot",
            "rack": self.rack.name,
            "medium": boot.medium,
            "image": boot.image.model_dump() if boot.image else None,
            "seed_goes_to": family["seed"],
            "nodes": {
                s.node.name: {"slot": s.node.slot, "address": s.node.address, "instance_id": s.instance_id}
                for s in self.seeds
            },
            "not_written": list(self.notes),
            "sha256": {path: hashlib.sha256(text.encode()).hexdigest() for path, text in files.items()},
        }
        return json.dumps(manifest, indent=2) + "\n"


def build_first_boot_files(
    rack: Rack,
    nodes: Sequence[RackNode],
    authorized_keys: Sequence[str],
    make_host_key: Callable[[RackNode], SshHostKey | None],
) -> RackFirstBootFiles:
    """Return the files of some nodes' first boot.

    ``authorized_keys`` may log in, ``make_host_key`` gives each node its own host key.
    """
    boot = _boot(rack)
    seeds = tuple(_seed(rack, boot, node, authorized_keys, make_host_key(node)) for node in nodes)
    shared: dict[str, str] = {"addresses.json": _addresses(rack, nodes)}
    if boot.netboot:
        shared |= _netboot(rack, boot.netboot, seeds)
    export = RackFirstBootFiles(rack, seeds, shared)
    if known_hosts_lines := export.known_hosts_lines():
        shared["known_hosts"] = "\n".join(known_hosts_lines) + "\n"
    notes = {
        note
        for node in nodes
        for note in firmware.list_unsupported_settings(boot, firmware.find_raspberry_pi_board(node.machine))
    }
    return RackFirstBootFiles(rack, seeds, shared, tuple(sorted(notes)))


def _boot(rack: Rack) -> FirstBootSettings:
    if rack.boot is None:
        remedy = "declare how its nodes boot; docs/commissioning.md has an example"
        raise InputError("is missing", where=f"inventory/{rack.name}.yaml", key="boot", remedy=remedy)
    return rack.boot


def _netboot(rack: Rack, server: NetbootServer, seeds: Sequence[NodeFirstBootFiles]) -> dict[str, str]:
    """Return what the network boot server is given."""
    nodes = [seed.node for seed in seeds]
    if rack.network is None or any(node.address is None for node in nodes):
        where = f"inventory/{rack.name}.yaml"
        raise InputError("a network boot needs it", where=where, key="network", remedy="give network.cidr")
    server_files = {
        "netboot/dnsmasq.conf": netboot.build_dnsmasq_config(rack, rack.network, server, nodes),
        "netboot/exports": netboot.build_nfs_exports(server, nodes),
    }
    for seed in seeds:
        folder = f"netboot/tftp/{netboot.tftp_folder_name(server, seed.node)}"
        server_files |= {
            f"{folder}/{name}": seed.files[name] for name in ("cmdline.append.txt", "config.append.txt")
        }
    return server_files


def _seed(
    rack: Rack, boot: FirstBootSettings, node: RackNode, keys: Sequence[str], host_key: SshHostKey | None
) -> NodeFirstBootFiles:
    board = firmware.find_raspberry_pi_board(node.machine)
    family = firmware.load_data_table("families")[boot.image.family if boot.image else "raspios"]
    user = cloud_init.build_user_data(rack, boot, node, keys, host_key) | family["user_data"]
    network = cloud_init.build_network_config(rack, boot, node, boot.interface or family["interface"])
    instance = cloud_init.derive_instance_id(rack, node, user, network)
    files = {
        "user-data": cloud_init.format_cloud_config(user, "#cloud-config\n"),
        "meta-data": cloud_init.format_cloud_config({"instance-id": instance, "local-hostname": node.name}),
        "network-config": cloud_init.format_cloud_config(network),
        "cmdline.append.txt": firmware.build_kernel_arguments(
            rack, boot, node, instance, includes_seed_id=family["cmdline"]
        ),
        "config.append.txt": firmware.build_config_txt_lines(boot, board),
        "boot.conf": firmware.build_boot_conf(boot, board),
    }
    return NodeFirstBootFiles(node, instance, files, host_key.public if host_key else None)


def _addresses(rack: Rack, nodes: Sequence[RackNode]) -> str:
    """Return the address book that ``gpufleet nodes sync --address-book`` reads."""
    book = {f"{rack.name}/{node.slot}": node.address for node in nodes if node.address}
    return json.dumps(book, indent=2) + "\n"
