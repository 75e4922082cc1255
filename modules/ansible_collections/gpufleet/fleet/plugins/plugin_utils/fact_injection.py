# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Keep what a node reports apart from what the operator sets.

By default (INJECT_FACTS_AS_VARS), Ansible makes a variable of each key of ``ansible_facts`` in any module's answer.
Such a variable overrides the variables of the inventory and the defaults of roles. A node could then replace any
setting: for example the address of its BMC, where the role ``power`` would send the operator's password.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible import constants
from ansible.errors import AnsibleError

OPTION = "INJECT_FACTS_AS_VARS"
REMEDY = (
    "set inject_facts_as_vars = false in the section [defaults] of an ansible.cfg that Ansible reads, or"
    " ANSIBLE_INJECT_FACT_VARS=false in the environment"
)


def refuse_fact_injection() -> None:
    """Raise AnsibleError, in one line with the remedy, unless Ansible certainly makes no variables of facts."""
    try:
        is_injected = constants.config.get_config_value(OPTION)
    except AnsibleError as error:
        raise AnsibleError(f"gpufleet.fleet cannot read Ansible's setting {OPTION}: {error}") from None
    if is_injected is not False:
        raise AnsibleError(
            f"gpufleet.fleet refuses to run: Ansible's setting {OPTION} is {is_injected} ({describe_source()}),"
            f" so that a node's facts could replace the operator's variables; {REMEDY}"
        )


def describe_source() -> str:
    """Return where Ansible's settings come from."""
    file = constants.CONFIG_FILE
    return f"configuration file: {file}" if file else "no configuration file was read"


def refuse_forged_settings(task_vars: Mapping[str, Any], settings: Iterable[str]) -> None:
    """Raise AnsibleError if the host reports facts with the names of these settings."""
    facts = task_vars.get("ansible_facts") or {}
    forged = sorted({*settings} & {*facts})
    if forged:
        raise AnsibleError(
            f"{task_vars.get('inventory_hostname')} reports facts with the names of settings"
            f" ({', '.join(forged)}): only the inventory may set them"
        )
