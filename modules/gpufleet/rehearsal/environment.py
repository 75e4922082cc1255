"""The environment variables with which gpufleet and Ansible use a rehearsal's registry and hosts."""

from __future__ import annotations

import shlex
from pathlib import Path


def build_registry_and_ssh_environment(home: Path, stack: str) -> dict[str, str]:
    """Return the variables for the registry, the address book and SSH of the rehearsal in ``home``."""
    # Ansible splits the option by shell rules, ssh by its own rules, and ssh expands percent signs.
    known_hosts = str(home / "ssh" / "known_hosts").replace("%", "%%")
    known_hosts_option = shlex.quote(f'UserKnownHostsFile="{known_hosts}"')
    return {
        "GPUFLEET_HOME": str(home),
        "GPUFLEET_REHEARSAL": stack,
        "GPUFLEET_DATABASE_URL": f"sqlite:///{home / 'registry.db'}",
        "GPUFLEET_ADDRESS_BOOK": str(home / "addresses.json"),
        "ANSIBLE_PRIVATE_KEY_FILE": str(home / "ssh" / "id_ed25519"),
        "ANSIBLE_SSH_COMMON_ARGS": f"-o {known_hosts_option} -o StrictHostKeyChecking=yes",
    }
