"""A run as a folder, for others to carry: ``ansible-runner transmit FOLDER -p site.yml`` sends it anywhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpufleet.errors import InputError
from gpufleet.remote.plan import RunPlan, read_ansible_inventory
from gpufleet.remote.shards import private_data
from gpufleet.remote.shards.known_hosts import read_trusted_host_keys

# Ansible runs in the folder's project, wherever the folder comes to lie.
PROJECT_PARENT = ".."


def write_runner_folder(
    plan: RunPlan, folder: Path, extra_vars: Mapping[str, Any], options: str = ""
) -> None:
    """Write an ansible-runner private data directory for the plan's hosts; the folder must not exist yet.

    It holds no private key: the machine that runs it provides one (ansible-runner's ``env/ssh_key``, or an agent).
    """
    if folder.exists():
        raise InputError(
            "the folder already exists", where=str(folder), key="--pack", remedy="name a new folder"
        )
    private_data.refuse_links_out_of_galaxy(plan.root)
    inventory = read_ansible_inventory(plan.root)
    hostvars = inventory.get("_meta", {}).get("hostvars", {})
    trusted = read_trusted_host_keys(plan.hosts[0], hostvars.get(plan.hosts[0], {}))
    folder.mkdir(parents=True, mode=0o700)
    private_data.write_runner_private_data(folder, plan.root, inventory, trusted, {})
    (folder / private_data.EXTRA).unlink()
    environment = private_data.build_run_environment(PROJECT_PARENT) | {"ANSIBLE_CONFIG": "ansible.cfg"}
    environment.pop("ANSIBLE_PRIVATE_KEY_FILE", None)
    cmdline = " ".join(filter(None, [f"--limit {','.join(plan.hosts)}", options]))
    env = folder / "env"
    env.mkdir(mode=0o700)
    for name, text in (
        ("envvars", json.dumps(environment)),
        ("extravars", json.dumps(extra_vars)),
        ("cmdline", cmdline),
    ):
        (env / name).write_text(text)
        (env / name).chmod(0o600)
