# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Why roles of other people cannot run: the list is not a list of names, or a role is not installed.

Reads the controller's folders of roles and collections, as Ansible does when it includes a role.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.role.definition import RoleDefinition

REMEDY = "in requirements.yml next to ansible.cfg and run ansible-galaxy install -r requirements.yml there"
OWN_ROLES = Path(__file__).parents[2] / "roles"


def find_role_problem(names: Any, variable_name: str, playbook_folder: str) -> str:
    """Return why the roles cannot run, in one line; empty if all of them are installed."""
    is_list = isinstance(names, Sequence) and not isinstance(names, str | bytes)
    if not is_list or not all(isinstance(name, str) and name.strip() for name in names):
        return f"{variable_name} is {names!r:.60}: must be a list of role names, such as [geerlingguy.docker]"
    missing = [str(name) for name in names if not is_role_installed(name, playbook_folder)]
    if not missing:
        return ""
    if len(missing) == 1:
        return f"role {missing[0]} ({variable_name}) is not installed: list it {REMEDY}"
    return f"roles {', '.join(missing)} ({variable_name}) are not installed: list them {REMEDY}"


def is_role_installed(name: str, playbook_folder: str) -> bool:
    """True if Ansible finds the role: in a collection, or on its path of roles."""
    try:
        load_role_definition(name, playbook_folder)
    except AnsibleError:
        return False
    return True


def locate_role(name: str, playbook_folder: str) -> str:
    """Return what includes the role: its folder if a role of ours has its name, which a play of ours would take."""
    if not (OWN_ROLES / name).is_dir():
        return name
    return str(load_role_definition(name, playbook_folder).get_role_path())


def load_role_definition(name: str, playbook_folder: str) -> Any:
    """Return Ansible's definition of a role; raise AnsibleError if it is not found."""
    loader = DataLoader()
    loader.set_basedir(playbook_folder)
    definition = RoleDefinition(loader=loader)
    definition.preprocess_data(name)
    return definition


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"role_problem": find_role_problem, "locate_role": locate_role}
