"""What a node does at its first boot. Pure."""

from __future__ import annotations

import json
from typing import Any

from gpufleet.fleet import Fleet, Pool

# Ubuntu 22.04's own packages, which are what our base images have (playbooks/roles/*/vars/ubuntu-22.04.yml).
ENGINES = {"podman": ["podman"], "docker": ["docker.io"], "none": []}


def cloud_init(fleet: Fleet, pool: Pool) -> str:
    """Return cloud-init data that lets every key of the spec in; later changes of keys are Ansible's."""
    told: dict[str, Any] = {"ssh_authorized_keys": list(fleet.ssh.authorized_keys)}
    return "#cloud-config\n" + json.dumps(told | first_packages(fleet, pool)) + "\n"


def first_packages(fleet: Fleet, pool: Pool) -> dict[str, Any]:
    """Return what cloud-init is to install, so that Ansible finds a node that is half way there."""
    if pool.first_boot == "login":
        return {}
    plan = fleet.blueprint(pool.template)
    storage = plan.hardware.storage
    tools = ["mdadm"] if storage.layout == "raid0" else []
    tools += ["xfsprogs"] if storage.layout != "none" and storage.filesystem == "xfs" else []
    return {"package_update": True, "packages": ["python3", *ENGINES[plan.engine], *tools]}


def alone(fleet: Fleet, pool: Pool) -> str | None:
    """Return the same for clouds that let the keys in themselves; None where nothing is left to say."""
    packages = first_packages(fleet, pool)
    return "#cloud-config\n" + json.dumps(packages) + "\n" if packages else None
