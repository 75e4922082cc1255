"""The host keys that ssh trusts on this machine, so that a mesh node trusts the same keys and no others."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FILE_OPTIONS = (["userknownhostsfile"], ["globalknownhostsfile"])
"""Both: a key that the machine's own file revokes is revoked for this user too."""


def read_trusted_host_keys(host_name: str, host_variables: Mapping[str, Any]) -> str:
    """Return the contents of the known-hosts files that ssh uses for a host."""
    variables = {key: unwrap_unsafe_value(value) for key, value in host_variables.items()}
    common = str(variables.get("ansible_ssh_common_args") or os.environ.get("ANSIBLE_SSH_COMMON_ARGS", ""))
    address = str(variables.get("ansible_host") or host_name)
    command = ["ssh", "-G", *shlex.split(common), "--", address]
    ssh_config = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    lines = (line.split() for line in ssh_config.splitlines())
    paths = [path for fields in lines if fields[:1] in FILE_OPTIONS for path in fields[1:]]
    files = [Path(path).expanduser() for path in paths]
    readable = (file for file in files if file.is_file() and os.access(file, os.R_OK))
    return "".join(f"{file.read_text(errors='replace').rstrip()}\n" for file in readable)


def unwrap_unsafe_value(value: Any) -> Any:
    """Return what ``ansible-inventory --list`` wraps where Ansible must not read it as a template."""
    wrapped = isinstance(value, Mapping) and value.keys() == {"__ansible_unsafe"}
    return value["__ansible_unsafe"] if wrapped else value
