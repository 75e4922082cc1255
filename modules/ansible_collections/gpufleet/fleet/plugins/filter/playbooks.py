# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the playbooks decide for each host: which plays it needs, and why a task failed. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from ansible import constants

# The reason of a failure that Ansible does not tell the play.
NOT_INCLUDED = "a role or a file could not be included; the errors of the run have the reason"
# How Ansible names its own types in messages about arguments.
TAGGED_TYPE = re.compile(r"<class '[\w.]*\b_?AnsibleTagged(\w+)'>")
CARD_VENDORS = ("nvidia", "amd")
KINDS_WITHOUT_CARDS = ("compute_blade", "workstation")
# Variables that Ansible's own plugins read as options (`ansible-doc -t connection ssh`, and so on). A host that reports
# a fact of such a name could otherwise choose which program the controller runs to reach it.
OPTION_VARIABLE = re.compile(
    r"ansible_(?:ssh_(?!host_key_(?!checking))|"
    r"(?:become|control_path|deprecation|local_become|module_compression|paramiko|private_key|psrp|python_module_rlimit|"
    r"remote|runas|scp|sftp|shell|sshpass|su|sudo|win|winrm|facts_modules)(?:_|$)|"
    r"(?:admin_users|async_dir|common_remote_group|connection|host|host_key_checking|interpreter_python_fallback|"
    r"no_target_syslog|password|pipelining|port|system_tmpdirs|target_log_info|timeout|user)$|"
    r".*_interpreter$)"
)
# Variables that Ansible itself sets: facts, tags and limit of the run, and what a rescue reports.
ANSIBLE_VARIABLES = constants.INTERNAL_STATIC_VARS | {
    "ansible_check_mode", "ansible_delegated_vars", "ansible_failed_result", "ansible_failed_task"
}  # fmt: skip


def is_burn_in_due(setting: str, *, is_new: bool, is_busy: bool) -> bool:
    """True if the host is measured in this run: by the setting always, never, or (auto) while it is new."""
    if is_busy or setting == "never":
        return False
    return setting == "always" or is_new


def may_have_gpu_cards(software: Mapping[str, Any], *, declares_cards: bool, kind: str) -> bool:
    """True if the host declares cards, its template requests a driver, or its kind can have undeclared cards."""
    requested_vendor = (software.get("driver") or {}).get("vendor")
    return declares_cards or requested_vendor in CARD_VENDORS or kind not in KINDS_WITHOUT_CARDS


def may_restart_host(is_busy: bool, *, is_requested: bool, restart_busy: bool, has_failed: bool) -> bool:
    """True if restarts are requested, the drivers did not fail, and no job runs that the restart would stop."""
    return is_requested and not has_failed and (restart_busy or not is_busy)


def may_have_application(
    application: Mapping[str, Any], *, probe: Mapping[str, Any] | None, has_template: bool
) -> bool:
    """True if the host has an application, or may have one left over.

    Commissioning lists gpufleet's units. Without its result (``probe`` is None), every node with a template may have
    one left over.
    """
    if application.get("container_files"):
        return True
    return has_template if probe is None else bool(probe.get("applications"))


def may_have_kernel_arguments(
    arguments: Mapping[str, Any], *, gigantic_pages: int, probe: Mapping[str, Any]
) -> bool:
    """True if the inventory requests kernel arguments, or if earlier ones are left over (see the module probe)."""
    return bool(arguments) or gigantic_pages > 0 or bool(probe.get("has_kernel_arguments"))


def needs_container_engine(engine: str, *, vendor: str) -> bool:
    """True if the template names an engine, or leaves it open (auto) and the driver plan has cards of a vendor."""
    return vendor != "none" if engine == "auto" else engine != "none"


def needs_second_driver_plan(driver_plan: Mapping[str, Any]) -> bool:
    """True if the plan has packages whose versions are known only once the vendor's repositories are there."""
    return bool(driver_plan["repositories"]) and any(
        not package.get("version") for package in driver_plan["packages"]
    )


def site_play_groups(
    engine: str,
    *,
    may_have_cards: bool,
    fabric: str,
    has_application: bool,
    has_exporters: bool,
    has_kernel_arguments: bool,
    has_nfs: bool,
    has_spot_notice: bool,
    is_burn_in_due: bool,
    has_roles_before: bool = False,
    has_roles_after: bool = False,
) -> list[str]:
    """Return the groups of the plays of site.yml that the host needs."""
    needs = {
        "roles_before_here": has_roles_before,
        "kernel_arguments_here": has_kernel_arguments,
        "drivers_planned": may_have_cards,
        "containers_here": needs_container_engine(engine, vendor="none"),
        f"fabric_{fabric}": fabric != "none",
        "nfs_here": has_nfs,
        "spot_notice_here": has_spot_notice,
        "application_here": has_application,
        "roles_after_here": has_roles_after,
        "monitoring_here": has_exporters,
        "burn_in_now": is_burn_in_due,
    }
    return [group for group, is_needed in needs.items() if is_needed]


def select_fact_variables(gathered: Mapping[str, Any]) -> dict[str, Any]:
    """Return gathered facts as the variables that Ansible makes of them by default (``ansible_distribution``).

    Names that Ansible sets itself or that a plugin of Ansible reads as an option are left out: a host must not set
    those.
    """
    facts = gathered.get("ansible_facts") or {}
    return {
        name: value
        for name, value in facts.items()
        if name.startswith("ansible_") and name not in ANSIBLE_VARIABLES and not OPTION_VARIABLE.match(name)
    }


def task_failure_reason(task_result: Mapping[str, Any]) -> str:
    """Return the message of a failed task; of a loop that of the first item that failed."""
    failed_items = [item for item in task_result.get("results") or [] if item.get("failed") is True]
    message = str((failed_items or [task_result])[0].get("msg", "no reason given"))
    return TAGGED_TYPE.sub(lambda match: match[1].lower(), message)


def failure_facts(task: Mapping[str, Any], *, result: Mapping[str, Any]) -> dict[str, str]:
    """Return the facts of a report on a failure: the task and its reason.

    Ansible (2.19 and 2.21) sets ansible_failed_task and ansible_failed_result only for tasks that failed on a host, not
    for a role or a file that it could not include. Both are empty then.
    """
    if not result:
        return {"task": "", "reason": NOT_INCLUDED}
    return {"task": str(task.get("name") or ""), "reason": task_failure_reason(result)}


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "is_burn_in_due": is_burn_in_due,
            "may_have_cards": may_have_gpu_cards,
            "may_restart": may_restart_host,
            "has_application": may_have_application,
            "has_kernel_arguments": may_have_kernel_arguments,
            "needs_container_engine": needs_container_engine,
            "needs_second_plan": needs_second_driver_plan,
            "site_groups": site_play_groups,
            "fact_variables": select_fact_variables,
            "failure_facts": failure_facts,
            "failure_reason": task_failure_reason,
        }
