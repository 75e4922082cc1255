# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Why roles of other people cannot run: the list is not a list of names, or a role is not installed.

Reads the controller's folders of roles and collections, as Ansible does when it includes a role.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.role.definition import RoleDefinition

REMEDY = "in playbooks/requirements.yml and run ansible-galaxy install -r requirements.yml in that folder"


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
    """True if Ansible finds the role: in a collection, next to the playbooks, or on its path of roles."""
    loader = DataLoader()
    loader.set_basedir(playbook_folder)
    try:
        RoleDefinition(loader=loader).preprocess_data(name)
    except AnsibleError:
        return False
    return True


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"role_problem": find_role_problem}
