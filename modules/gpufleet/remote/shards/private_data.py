"""The folder that is sent to a worker: playbooks, the inventory as it is now, host keys; nothing of the registry.

The inventory is written down as plain data, because a worker can't ask the registry. Its ``group_vars`` and
``host_vars`` go along as files, so that they keep their place in Ansible's order of precedence.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpufleet.errors import InputError

WORKED_OUT_HERE = "callbacks_enabled"  # the registry is told from here, where the events arrive
NOT_SENT = shutil.ignore_patterns("__pycache__", ".ansible", "artifacts", "*.retry")
# Settings of this machine's Ansible that mean something on another.
SENT_ON = ("ANSIBLE_REMOTE_USER", "ANSIBLE_FORKS", "ANSIBLE_TIMEOUT", "GPUFLEET_REHEARSAL")
EXTRA = "extra.json"


def lay(
    folder: Path, root: Path, inventory: Mapping[str, Any], known_hosts: str, extra_vars: Mapping[str, Any]
) -> None:
    """Fill an empty folder."""
    shutil.copytree(root / "playbooks", folder / "project", ignore=NOT_SENT)
    config = folder / "project" / "ansible.cfg"
    if config.is_file():
        lines = config.read_text().splitlines(keepends=True)
        config.write_text("".join(line for line in lines if not line.startswith(WORKED_OUT_HERE)))
    hosts = folder / "inventory"
    hosts.mkdir()
    (hosts / "hosts.json").write_text(json.dumps(static(inventory)))
    for name in ("group_vars", "host_vars"):
        if (root / "inventory" / name).is_dir():
            shutil.copytree(root / "inventory" / name, hosts / name, ignore=NOT_SENT)
    (folder / "ssh").mkdir()
    (folder / "ssh" / "known_hosts").write_text(known_hosts)
    public = _public_key()
    if public:
        (folder / "ssh" / "key.pub").write_text(public)
    (folder / EXTRA).write_text(json.dumps(extra_vars))


def static(exported: Mapping[str, Any]) -> dict[str, Any]:
    """Return an inventory that needs no plugin, from what ``ansible-inventory --list --export`` printed."""
    hostvars = exported.get("_meta", {}).get("hostvars", {})
    everyone = {host for group in exported.values() for host in group.get("hosts", ())} | set(hostvars)
    groups: dict[str, Any] = {
        name: {
            "hosts": {host: {} for host in group.get("hosts", ())},
            "children": {child: {} for child in group.get("children", ()) if child in exported},
        }
        for name, group in exported.items()
        if name not in ("_meta", "all")
    }
    return {"all": {"hosts": {host: hostvars.get(host, {}) for host in sorted(everyone)}, "children": groups}}


def environment(there: str) -> dict[str, str]:
    """Return what the worker's Ansible is told by its environment; ``there`` is the folder on the worker."""
    if os.environ.get("ANSIBLE_VAULT_PASSWORD_FILE"):
        remedy = "unset ANSIBLE_VAULT_PASSWORD_FILE for runs by workers"
        raise InputError("vault passwords are not sent to workers", key="--workers", remedy=remedy)
    kept = {name: os.environ[name] for name in SENT_ON if name in os.environ}
    return {
        **kept,
        "ANSIBLE_CONFIG": f"{there}/project/ansible.cfg",
        "ANSIBLE_HOST_KEY_CHECKING": "True",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_SSH_COMMON_ARGS": f"-o UserKnownHostsFile={there}/ssh/known_hosts -o StrictHostKeyChecking=yes",
        # Only its public part is there; the key itself is in the memory of an agent.
        **({"ANSIBLE_PRIVATE_KEY_FILE": f"{there}/ssh/key"} if _public_key() else {}),
    }


def private_key() -> str | None:
    """Return the key that Ansible is told to use, for the worker's agent; None where an agent here has it."""
    named = os.environ.get("ANSIBLE_PRIVATE_KEY_FILE")
    if named:
        try:
            return Path(named).expanduser().read_text()
        except OSError as gone:
            raise InputError(
                f"cannot read {named}: {gone.strerror}", key="ANSIBLE_PRIVATE_KEY_FILE"
            ) from gone
    if os.environ.get("SSH_AUTH_SOCK"):
        return None
    remedy = "set ANSIBLE_PRIVATE_KEY_FILE, or load the key into ssh-agent"
    raise InputError("workers have no key to reach hosts with", key="--workers", remedy=remedy)


def _public_key() -> str:
    named = os.environ.get("ANSIBLE_PRIVATE_KEY_FILE")
    public = Path(f"{named}.pub").expanduser() if named else None
    return public.read_text() if public and public.is_file() else ""
