"""What cloud-init reads at a node's first boot: user-data, meta-data and network-config. Pure."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML

from gpufleet.fleet import FirstBootSettings, Rack, RackNode

NODE_FILE = "/etc/gpufleet/node.json"
SUDO = "ALL=(ALL) NOPASSWD:ALL"

# The seed lies on a FAT partition, where files have no owner: once sshd has its key, the copy there goes.
FORGET_KEYS = """\
import pathlib, yaml
for folder in ("/boot/firmware", "/var/lib/cloud/seed/nocloud"):
    seed = pathlib.Path(folder, "user-data")
    told = yaml.safe_load(seed.read_text()) if seed.is_file() else None
    if isinstance(told, dict) and told.pop("ssh_keys", None):
        seed.write_text("#cloud-config\\n" + yaml.safe_dump(told))
"""


@dataclass(frozen=True)
class SshHostKey:
    """A node's SSH host key, made before the node ever booted. ``private`` is never shown."""

    private: str
    public: str

    def __repr__(self) -> str:
        return f"SshHostKey({self.public!r})"


def build_user_data(
    rack: Rack,
    boot: FirstBootSettings,
    node: RackNode,
    authorized_keys: Sequence[str],
    host_key: SshHostKey | None,
) -> dict[str, Any]:
    """Return the node's configuration at first boot: who it is, who may log in, and nothing by password."""
    place = {"rack": rack.name, "slot": node.slot, "name": node.name, "serial": node.serial}
    config: dict[str, Any] = {
        "hostname": node.name,
        "preserve_hostname": False,
        "manage_etc_hosts": "localhost",  # one line for the own name, so that sudo waits for no name server
        "timezone": boot.timezone,
        "locale": boot.locale,
        "ssh_pwauth": False,
        "disable_root": boot.user != "root",
        "users": [_user(boot.user, authorized_keys)],
        "ssh_deletekeys": True,
        "ssh_genkeytypes": ["ed25519"],
        "write_files": [
            {"path": NODE_FILE, "permissions": "0644", "content": json.dumps(place) + "\n"},
        ],
    }
    if host_key is None:
        # Its console is where the key can be read without trusting the network.
        config["ssh"] = {"emit_keys_to_console": True}
    else:
        config["ssh_keys"] = {"ed25519_private": host_key.private, "ed25519_public": f"{host_key.public}\n"}
        config["runcmd"] = [["python3", "-c", FORGET_KEYS]]
    return config


def _user(name: str, keys: Sequence[str]) -> dict[str, Any]:
    user: dict[str, Any] = {"name": name, "lock_passwd": True, "ssh_authorized_keys": list(keys)}
    if name != "root":
        user |= {"sudo": SUDO, "shell": "/bin/bash", "groups": "adm, sudo"}
    return user


def build_network_config(
    rack: Rack, boot: FirstBootSettings, node: RackNode, interface: str
) -> dict[str, Any]:
    """Return the network in cloud-init's version 2: the slot's own address, or DHCP where the rack has no network."""
    link: dict[str, Any] = {"dhcp4": node.address is None, "dhcp6": False}
    if node.mac:
        link = {"match": {"macaddress": node.mac}, "set-name": interface, **link}
    if node.address and rack.network:
        link["addresses"] = [f"{node.address}/{rack.network.cidr.prefixlen}"]
    if boot.gateway:
        link["routes"] = [{"to": "0.0.0.0/0", "via": str(boot.gateway)}]
    if boot.dns:
        link["nameservers"] = {"addresses": [str(server) for server in boot.dns], "search": list(boot.search)}
    return {"version": 2, "ethernets": {interface: link}}


def derive_instance_id(rack: Rack, node: RackNode, *configs: dict[str, Any]) -> str:
    """Return an id that is new whenever the configuration is, which makes cloud-init see a first boot."""
    digest = hashlib.sha256(json.dumps(configs, sort_keys=True).encode()).hexdigest()
    return f"gpufleet-{rack.name}-{node.slot}-{digest[:10]}"


def format_cloud_config(data: Any, heading: str = "") -> str:
    """Return data as YAML text."""
    out = io.StringIO()
    writer = YAML()
    writer.width = 4096
    writer.dump(data, out)
    return heading + out.getvalue()
