"""The cloud-init data of a node's first boot. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gpufleet.fleet import Fleet, Pool, uses_local_drives

# Ubuntu 22.04's own packages, the release of every base image (systems.yml of the role container_engine).
ENGINE_PACKAGES = {"podman": ["podman"], "docker": ["docker.io"], "none": []}

# AWS's GPU images make one LVM volume of all local drives and mount it on /opt/dlami/nvme; the role storage would find
# them in use. cloud-init runs bootcmd before sysinit.target on Ubuntu (canonical/cloud-init, cloud-init.service.tmpl),
# so before this service. Release notes of the images: nvme_location; name of the service:
# awslabs/awsome-distributed-ai #438. Read 2026-11-23.
IMAGE_SCRATCH_SERVICE = "dlami-nvme.service"


def build_cloud_init_with_keys(fleet: Fleet, pool: Pool) -> str:
    """Return cloud-init data that authorizes every key of the spec; Ansible makes later changes of keys."""
    settings: dict[str, Any] = {"ssh_authorized_keys": list(fleet.ssh.authorized_keys)}
    if uses_local_drives(fleet, pool):
        settings["bootcmd"] = [["systemctl", "mask", IMAGE_SCRATCH_SERVICE]]
    return "#cloud-config\n" + json.dumps(settings | build_package_settings(fleet, pool)) + "\n"


def build_package_settings(fleet: Fleet, pool: Pool) -> dict[str, Any]:
    """Return the packages that cloud-init installs before Ansible configures the node."""
    if pool.first_boot == "login":
        return {}
    plan = fleet.resolve_blueprint(pool.template)
    storage = plan.hardware.storage
    tools = ["mdadm"] if storage.layout == "raid0" else []
    tools += ["xfsprogs"] if storage.layout != "none" and storage.filesystem == "xfs" else []
    return {"package_update": True, "packages": ["python3", *ENGINE_PACKAGES[plan.container_engine], *tools]}


def build_cloud_init_without_keys(
    fleet: Fleet, pool: Pool, more: Mapping[str, Any] | None = None
) -> str | None:
    """Return cloud-init data for clouds that set up the keys themselves; None if there is nothing to do."""
    settings = build_package_settings(fleet, pool) | dict(more or {})
    return "#cloud-config\n" + json.dumps(settings) + "\n" if settings else None
