# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the two inventory plugins share: the model built whole, or a failure that nobody can overlook."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path

from ansible import constants
from ansible.errors import AnsibleError, AnsibleParserError
from ansible.template import trust_as_template

from gpufleet import nodes, paths
from gpufleet.boundary import printable
from gpufleet.errors import GpufleetError


@contextmanager
def failing_whole():
    """Let whatever goes wrong inside stop Ansible: half an inventory, or an empty one, must never look whole.

    By default Ansible only warns about a source that fails, and goes on without its hosts.
    """
    try:
        yield
    except Exception as error:
        constants.INVENTORY_ANY_UNPARSED_IS_FAILED = True
        if isinstance(error, AnsibleError):
            raise
        hint = f" ({printable(error.hint)})" if getattr(error, "hint", None) else ""
        name = "" if isinstance(error, GpufleetError) else f"{type(error).__name__}: "
        raise AnsibleParserError(f"{name}{printable(error, 1000)}{hint}") from None


def build(path, *, url=None, missing=False, rack=None):
    """Return the inventory of the project around ``path``."""
    root = paths.project_root(Path(path).parent)
    return nodes.inventory_model(
        root,
        url or paths.database_url(root),
        rehearsal=os.environ.get("GPUFLEET_REHEARSAL") or None,
        include_missing=missing,
        rack=rack,
    )


def add(inventory, model):
    """Add a built model's groups, hosts and variables."""
    for group in model["groups"]:
        inventory.add_group(group)
    for host in model["hosts"]:
        inventory.add_host(host["name"])
        for group in host["groups"]:
            inventory.add_child(group, host["name"])
        for key, value in host["vars"].items():
            inventory.set_variable(host["name"], key, plain(value))


def plain(value):
    """Let text without a brace through as plain: it holds no template, so there is nothing to distrust.

    Anything else stays untrusted, as Ansible treats what comes from outside: never evaluated.
    """
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return trust_as_template(value) if isinstance(value, str) and "{" not in value else value
