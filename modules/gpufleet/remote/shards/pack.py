"""A run as a folder, for others to carry: ``ansible-runner transmit FOLDER -p site.yml`` sends it anywhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpufleet.errors import InputError
from gpufleet.remote.plan import RunPlan, ask_inventory
from gpufleet.remote.shards import private_data
from gpufleet.remote.shards.destination import destinations

# Ansible runs in the folder's project, wherever the folder comes to lie.
THERE = ".."


def pack(plan: RunPlan, folder: Path, extra_vars: Mapping[str, Any], options: str = "") -> None:
    """Lay an ansible-runner private data directory for the plan's hosts; the folder must not be there yet.

    It holds no private key: whoever runs it brings one (ansible-runner's ``env/ssh_key``, or an agent).
    """
    if folder.exists():
        raise InputError("is there already", where=str(folder), key="--pack", remedy="name a new folder")
    inventory = ask_inventory(plan.root)
    hostvars = inventory.get("_meta", {}).get("hostvars", {})
    trusted = destinations(plan.hosts[:1], hostvars)[0].known_hosts()
    folder.mkdir(parents=True, mode=0o700)
    private_data.lay(folder, plan.root, inventory, trusted, {})
    (folder / private_data.EXTRA).unlink()
    told = private_data.environment(THERE) | {"ANSIBLE_CONFIG": "ansible.cfg"}
    told.pop("ANSIBLE_PRIVATE_KEY_FILE", None)
    cmdline = " ".join(filter(None, [f"--limit {','.join(plan.hosts)}", options]))
    env = folder / "env"
    env.mkdir(mode=0o700)
    for name, text in (
        ("envvars", json.dumps(told)),
        ("extravars", json.dumps(extra_vars)),
        ("cmdline", cmdline),
    ):
        (env / name).write_text(text)
        (env / name).chmod(0o600)
