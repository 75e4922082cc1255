"""The folder that is sent to a mesh node: playbooks, other people's roles, the inventory as it is now, host keys.

Nothing of the registry is in it.

The inventory is written down as plain data, because a node can't ask the registry. Its ``group_vars`` and
``host_vars`` go along as files, so that they keep their place in Ansible's order of precedence.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from gpufleet.boundary import make_printable
from gpufleet.errors import InputError
from gpufleet.remote.plan import PLAYBOOKS, find_ansible_config
from gpufleet.remote.process_tree import SUPERVISOR

CALLBACKS = "callbacks_enabled"
REGISTRY_CALLBACK = "gpufleet.fleet.registry"  # this machine writes to the registry, as the events arrive
NOT_SENT = shutil.ignore_patterns("__pycache__", ".ansible", "artifacts", "*.retry")
GALAXY, ROLES = "galaxy", "roles"  # at the top of the project, where ansible.cfg expects them
# Settings of this machine's Ansible that mean something on another.
FORWARDED_VARIABLES = ("ANSIBLE_REMOTE_USER", "ANSIBLE_FORKS", "ANSIBLE_TIMEOUT", "GPUFLEET_REHEARSAL")
EXTRA = "extra.json"
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SAME_VERSIONS = ("ansible-core", "gpufleet")  # on the controller and on every node


def write_runner_private_data(
    folder: Path, root: Path, inventory: Mapping[str, Any], known_hosts: str, extra_vars: Mapping[str, Any]
) -> None:
    """Fill an empty folder."""
    config, project = find_ansible_config(root), folder / "project"
    if (root / PLAYBOOKS).is_dir():
        shutil.copytree(root / PLAYBOOKS, project, ignore=NOT_SENT)
    else:
        project.mkdir()
    (project / "ansible.cfg").write_text(remove_registry_callback(config.read_text()))
    # An ansible.cfg at the top of the project expects them next to it, in the place that it has there.
    parent = project if config.parent == root else folder
    for name in (GALAXY, *([ROLES] if config.parent == root else [])):
        if (root / name).is_dir():
            not_sent = shutil.ignore_patterns("__pycache__", ".git")
            shutil.copytree(root / name, parent / name, symlinks=name == GALAXY, ignore=not_sent)
    hosts = folder / "inventory"
    hosts.mkdir()
    (hosts / "hosts.json").write_text(json.dumps(build_static_inventory(inventory)))
    for name in ("group_vars", "host_vars"):
        if (root / "inventory" / name).is_dir():
            shutil.copytree(root / "inventory" / name, hosts / name, ignore=NOT_SENT)
    (folder / "ssh").mkdir()
    (folder / "ssh" / "known_hosts").write_text(known_hosts)
    public = _public_key()
    if public:
        (folder / "ssh" / "key.pub").write_text(public)
    (folder / EXTRA).write_text(json.dumps(extra_vars))


def refuse_links_out_of_galaxy(root: Path) -> None:
    """Raise InputError for a link that would lead elsewhere, or nowhere, on another machine."""
    top = (root / GALAXY).resolve()
    for path in top.rglob("*"):
        if path.is_symlink():
            target = path.readlink()
            if target.is_absolute() or not (path.parent / target).resolve().is_relative_to(top):
                raise InputError(
                    f"a link out of {GALAXY}/, to files that are not sent to other machines",
                    where=make_printable(f"{GALAXY}/{path.relative_to(top)}"),
                    remedy="copy the role or collection to that place",
                )


def remove_registry_callback(config_text: str) -> str:
    """Return the text of an ansible.cfg with all enabled callbacks but the one that writes to the registry."""
    lines = []
    for line in config_text.splitlines(keepends=True):
        key, _, value = line.partition("=")
        if key.strip() != CALLBACKS:
            lines.append(line)
            continue
        names = [name for name in map(str.strip, value.split(",")) if name != REGISTRY_CALLBACK]
        if any(names):
            lines.append(f"{CALLBACKS} = {', '.join(names)}\n")
    return "".join(lines)


def build_static_inventory(exported: Mapping[str, Any]) -> dict[str, Any]:
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


def write_node_programs(folder: Path) -> None:
    """Write the programs that run Ansible on a node: checked, supervised, with nothing left behind."""
    programs = folder / "bin"
    programs.mkdir()
    for source, name in (
        (Path(__file__).with_name("node_playbook.py"), "ansible-playbook"),
        (SUPERVISOR, SUPERVISOR.name),
    ):
        shutil.copyfile(source, programs / name)
        (programs / name).chmod(0o700)
    (programs / "versions.json").write_text(
        json.dumps({name: metadata.version(name) for name in SAME_VERSIONS})
    )


def build_run_environment(folder_on_node: str) -> dict[str, str]:
    """Return the environment of Ansible in that folder, wherever it is."""
    if os.environ.get("ANSIBLE_VAULT_PASSWORD_FILE"):
        remedy = "unset ANSIBLE_VAULT_PASSWORD_FILE for runs on other machines"
        raise InputError("vault passwords are not sent to other machines", key="--mesh", remedy=remedy)
    forwarded = {name: os.environ[name] for name in FORWARDED_VARIABLES if name in os.environ}
    return {
        **forwarded,
        "ANSIBLE_CONFIG": f"{folder_on_node}/project/ansible.cfg",
        "ANSIBLE_HOST_KEY_CHECKING": "True",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_SSH_COMMON_ARGS": (
            f"-o UserKnownHostsFile={folder_on_node}/ssh/known_hosts -o StrictHostKeyChecking=yes"
        ),
        # Only its public part is there; the key itself is in the memory of an agent.
        **({"ANSIBLE_PRIVATE_KEY_FILE": f"{folder_on_node}/ssh/key"} if _public_key() else {}),
    }


def build_node_environment(folder_on_node: str) -> dict[str, str]:
    """Return the environment on a mesh node: our programs first, everything that is written in the run's folder."""
    return {
        **build_run_environment(folder_on_node),
        "PATH": f"{folder_on_node}/bin:{SYSTEM_PATH}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TMPDIR": folder_on_node,
        "GPUFLEET_HOME": f"{folder_on_node}/state",
        "ANSIBLE_LOCAL_TEMP": f"{folder_on_node}/tmp",  # noqa: S108 - of the run's own folder
        "ANSIBLE_SSH_CONTROL_PATH_DIR": f"{folder_on_node}/cp",
    }


def read_ansible_private_key() -> str | None:
    """Return the key that Ansible is configured to use, for an agent on the node; None where nodes use their own."""
    key_path = os.environ.get("ANSIBLE_PRIVATE_KEY_FILE")
    if not key_path:
        return None
    try:
        return Path(key_path).expanduser().read_text()
    except OSError as error:
        raise InputError(
            f"cannot read {key_path}: {error.strerror}", key="ANSIBLE_PRIVATE_KEY_FILE"
        ) from error


def _public_key() -> str:
    key_path = os.environ.get("ANSIBLE_PRIVATE_KEY_FILE")
    public = Path(f"{key_path}.pub").expanduser() if key_path else None
    return public.read_text() if public and public.is_file() else ""
