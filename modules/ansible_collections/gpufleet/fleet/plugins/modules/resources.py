# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Packages, files, kernel settings and units of one outcome, in one call."""

from __future__ import annotations

DOCUMENTATION = """
module: resources
short_description: Manage packages, users, files, kernel settings and units in one call
description:
  - Replaces C(apt) or C(dnf), C(user), C(copy), C(sysctl), C(systemd_service) and their handlers by one call. The
    order is packages, users, files, kernel settings, units; each part is optional.
  - Reads the host's state first. If nothing differs, no other program is started.
  - All files are validated before the first is replaced, each in one atomic rename.
  - A unit is restarted or reloaded if something that it depends on was changed, by this call or by an earlier one
    that was interrupted before its units (recorded in C(/run/gpufleet/unfinished.json)).
  - What a host cannot have (a kernel setting in a container, a unit with an unmet condition) is returned under
    I(not_applied) with its reason and does not fail the task.
  - On Debian and its derivatives an interrupted dpkg is repaired first and reported in I(repaired).
options:
  packages:
    description: Packages, by dpkg and apt-get. On hosts with dnf, the action plugin calls M(ansible.builtin.dnf).
    type: dict
    suboptions:
      present: {description: "Names, or C(NAME=VERSION); in a version C(*) stands for anything.", type: list,
                elements: str, default: []}
      absent: {description: Names. Removed in the transaction that installs the others., type: list, elements: str,
               default: []}
      held: {description: Names to hold at their version; the module lifts its own hold to change one.,
             type: list, elements: str, default: []}
      unheld: {description: Names not to hold., type: list, elements: str, default: []}
      allow_downgrade: {description: Whether an older version may replace a newer one., type: bool, default: false}
      install_recommends: {description: Whether to install recommended packages too., type: bool, default: true}
      cache_valid_seconds: {description: "Age at which package lists are fetched again before something is installed;
                            also when a source was changed or a package is unknown.", type: int, default: 3600}
      lock_timeout_seconds: {description: How long to wait for another running package manager., type: int,
                             default: 300}
      timeout_seconds: {description: How long one command of the package manager may take., type: int, default: 3600}
  users:
    description: Users, with a home folder and without a password.
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: User name., type: str, required: true}
      comment: {description: Full name; not changed if omitted., type: str}
      shell: {description: Login shell; not changed if omitted., type: str}
      authorized_keys: {description: Public keys that may log in; added to those already there., type: list,
                        elements: str, default: []}
      revoked_keys: {description: Public keys that may no longer; the base64 part is enough., type: list,
                     elements: str, default: []}
      state: {description: Whether the user exists. A removed user's home folder stays., type: str,
              choices: [present, absent], default: present}
  packages_of_dnf: {description: Packages that dnf changed; only the action plugin sets it., type: list, elements: str,
                    default: []}
  files:
    description: The files, in order.
    type: list
    elements: dict
    default: []
    suboptions:
      path: {description: "Absolute path; C(~USER/) is the home of a user of the host.", type: path, required: true}
      state:
        description: >-
          C(file) has exactly I(content); C(lines) has each of I(lines) and no other line that matches one of I(remove);
          C(json) merges I(content) into the existing object (a null removes a key); C(directory) is a folder;
          C(link) points to I(target), which must exist; C(absent) does not exist.
        type: str
        choices: [file, lines, json, directory, link, absent]
        default: file
      content: {description: The whole content., type: str}
      lines: {description: Required lines; missing ones are added at the end., type: list, elements: str}
      remove: {description: Python regular expressions searched in each line., type: list, elements: str}
      target: {description: What the link points to., type: str}
      mode: {description: Octal permissions., type: str}
      owner: {description: User name., type: str, default: root}
      group: {description: Group name; by default the owner's primary group., type: str}
      validate:
        description: Command and arguments; C({}) becomes the path of the candidate. A status other than 0 rejects it.
        type: list
        elements: str
  sysctl: {description: "Kernel setting to value. With I(sysctl_path) and no settings the file is removed.", type: dict}
  sysctl_path:
    description: File for the settings; each task needs its own.
    type: path
  units:
    description: systemd's units.
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: "With its type, such as C(chrony.service).", type: str, required: true}
      enabled: {description: Whether it starts at boot., type: bool}
      state: {description: Whether it runs now., type: str, choices: [started, stopped]}
      restart_on: {description: "Paths (with a slash at the end: all below) and packages whose change restarts it.",
                   type: list, elements: str, default: []}
      reload_on: {description: The same for a reload., type: list, elements: str, default: []}
      daemon_reload_on: {description: "The same for C(systemctl daemon-reload), which a change in systemd's and podman's
                         unit folders triggers anyway.", type: list, elements: str, default: []}
extends_documentation_fragment: [gpufleet.fleet.common]
"""

EXAMPLES = """
- name: Time service
  gpufleet.fleet.resources:
    packages: {present: [chrony], absent: [ntp]}
    files:
      - path: /etc/chrony/sources.d/site.sources
        content: "server 198.18.0.1 iburst\\n"
    units:
      - {name: chrony.service, enabled: true, state: started, restart_on: [/etc/chrony/sources.d/]}
  register: time_applied
"""

RETURN = """
changed_paths: {description: Files that were replaced., returned: always, type: list, elements: str}
changed_packages: {description: "Packages whose version changed, dependencies included.", returned: always, type: list,
                   elements: str}
changed_users:
  description: Users that were created, changed or removed.
  returned: always
  type: list
  elements: str
changed_units: {description: "Unit to what was done to it, such as C(start).", returned: always, type: dict}
not_applied: {description: "C(sysctl) and C(units), each name to reason; empty where all applies.", returned: always,
              type: dict}
repaired: {description: Interrupted package operations that were finished., returned: always, type: list,
           elements: str}
"""

from collections.abc import Iterable  # noqa: E402
from pathlib import Path  # noqa: E402 - Ansible wants its documentation above the imports
from typing import Any  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402

from ansible_collections.gpufleet.fleet.plugins.module_utils import (  # noqa: E402
    files,
    packages,
    sysctl,
    unfinished_changes,
    units,
    users,
)
from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import AnsibleDiff, HostError  # noqa: E402

SYSCTL_PATH = "/etc/sysctl.d/60-gpufleet.conf"
SPEC = {
    "packages": packages.package_argument_spec(),
    "packages_of_dnf": {"type": "list", "elements": "str", "default": []},
    "users": users.user_argument_spec(),
    "files": files.file_argument_spec(),
    "sysctl": {"type": "dict"},
    "sysctl_path": {"type": "path"},
    "units": units.unit_argument_spec(),
}


class ResourceChanges:
    """The changes of one task; ``result`` is complete at any time, also after a failure."""

    def __init__(self, params: dict[str, Any], check_mode: bool) -> None:
        self.options, self.check_mode = params, check_mode
        self.result: dict[str, Any] = {
            "changed": False, "changed_paths": [], "changed_packages": params["packages_of_dnf"],
            "changed_users": [], "changed_units": {}, "not_applied": {}, "repaired": [], "diff": [],
        }  # fmt: skip

    def apply_all_parts(self) -> None:
        """Apply all parts in order."""
        for part in (
            self.apply_packages,
            self.apply_users,
            self.apply_files,
            self.apply_sysctl,
            self.apply_units,
        ):
            part()

    def apply_packages(self) -> None:
        if not self.options["packages"]:
            return
        done = packages.apply_package_options(self.options["packages"], self.check_mode)
        self.add_part_result(**done)

    def apply_users(self) -> None:
        names, diffs = users.apply_user_entries(self.options["users"], self.check_mode)
        self.add_part_result(bool(names), changed_users=names)
        self.result["diff"] += diffs

    def apply_files(self) -> None:
        changes = files.plan_file_changes(
            [*users.authorized_key_files(self.options["users"]), *self.options["files"]],
            self.has_unapplied_changes,
        )
        paths = [str(change.path) for change in changes]
        if not self.check_mode:
            self.record_unfinished_changes({*paths, *self.result["changed_packages"]})
            files.apply_file_changes(changes)
        for change in changes:
            self.add_part_result(True, change.build_diff())
        self.result["changed_paths"] += paths

    def apply_sysctl(self) -> None:
        settings, path = self.options["sysctl"], self.options["sysctl_path"]
        if settings is None or not (settings or path):
            return
        done = sysctl.apply_kernel_settings(Path(path or SYSCTL_PATH), settings, self.check_mode)
        self.add_part_result(done["changed"], done["diff"] if done["rewritten"] else None)
        self.result["changed_paths"] += [path or SYSCTL_PATH] if done["rewritten"] else []
        if done["not_applied"]:
            self.result["not_applied"]["sysctl"] = done["not_applied"]

    def apply_units(self) -> None:
        if not self.options["units"]:
            return
        changed_names = {
            *self.result["changed_paths"],
            *self.result["changed_packages"],
        } | self.find_unit_triggers(unfinished_changes.read_unfinished_changes())
        pending = self.check_mode and bool(changed_names)
        work = units.UnitChanges(self.options["units"], changed_names, self.check_mode, pending)
        work.apply_unit_changes()
        self.add_part_result(bool(work.changed), changed_units=work.changed)
        if work.not_applied:
            self.result["not_applied"]["units"] = work.not_applied
        remaining = unfinished_changes.read_unfinished_changes()
        if remaining and not self.check_mode:
            unfinished_changes.write_unfinished_changes(remaining - self.find_unit_triggers(remaining))

    @property
    def has_unapplied_changes(self) -> bool:
        """Return whether, in check mode, packages or users would still be changed."""
        return self.check_mode and bool(self.result["changed_packages"] or self.result["changed_users"])

    def find_unit_triggers(self, changed_names: Iterable[str]) -> set[str]:
        """Return the paths and packages that trigger a unit of this task."""
        rules = [
            rule
            for unit in self.options["units"]
            for rule in [*unit["restart_on"], *unit["reload_on"], *unit["daemon_reload_on"]]
        ]
        return {thing for thing in changed_names if units.is_any_rule_triggered(rules, [thing])}

    def record_unfinished_changes(self, changed_names: set[str]) -> None:
        """Record the changes that this task's units must react to, before they are made."""
        triggers = self.find_unit_triggers(changed_names)
        if triggers:
            unfinished_changes.write_unfinished_changes(
                unfinished_changes.read_unfinished_changes() | triggers
            )

    def add_part_result(self, changed: bool, diff: AnsibleDiff | None = None, **more: Any) -> None:
        """Add one part's outcome to the result."""
        self.result["changed"] = self.result["changed"] or changed
        self.result["diff"] += [diff] if diff else []
        self.result.update(more)


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    batch = ResourceChanges(module.params, module.check_mode)
    # Ansible would send all arguments back with the result: kilobytes a task and host, and secrets among them.
    batch.result["invocation"] = {"module_args": {"parts": sorted(key for key in SPEC if module.params[key])}}
    try:
        if module.params["packages"] and packages.find_package_manager_name() == "dnf":
            module.exit_json(changed=False, package_manager="dnf")
        batch.apply_all_parts()
    except HostError as error:
        module.fail_json(msg=error.msg, **{**batch.result, **error.result})
    if not (module.check_mode or module._diff):  # noqa: SLF001 - Ansible's own modules read it so
        del batch.result["diff"]
    module.exit_json(**batch.result)


if __name__ == "__main__":
    main()
