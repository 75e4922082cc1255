"""What a node does at its first boot. Pure."""

from __future__ import annotations

import json

from gpufleet.fleet import Fleet


def cloud_init(fleet: Fleet) -> str:
    """Return cloud-init data that lets every key of the spec in; later changes of keys are Ansible's."""
    return "#cloud-config\n" + json.dumps({"ssh_authorized_keys": list(fleet.ssh.authorized_keys)}) + "\n"
