# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Packages, files, kernel settings and units of one outcome, in one call."""

from __future__ import annotations

DOCUMENTATION = """
module: resources
short_description: Bring packages, files, kernel settings and units to one outcome, in one call
description:
  - Does what C(apt) or C(dnf), C(copy), C(sysctl), C(systemd_service) and their handlers do together, in one call.
    Order is packages, users, files, kernel settings, units; each part is optional.
  - The host's own records are read first. Nothing else is started where nothing differs.
  - All files are validated before the first is replaced, each in one atomic rename.
  - A unit is restarted or reloaded when something it depends on was changed, by this call or by an earlier one that
    was cut off before it came to its units (C(/run/gpufleet/pending_changes.json) remembers).
  - What the host can't have (a kernel setting in a container, a unit whose own condition is not met) is returned under
    I(not_applied) with its reason and does not fail the task.
  - On Debian and its likes a dpkg that was interrupted is repaired first; I(repaired) says so.
options:
  packages:
    description: Packages, by dpkg and apt-get, or rpm and dnf.
    type: dict
    suboptions:
      present: {description: "Names, or C(NAME=VERSION); in a version C(*) stands for anything.", type: list,
                elements: str, default: []}
      absent: {description: Names. Removed in the transaction that installs the others., type: list, elements: str,
               default: []}
      held: {description: Kept at their version by everybody else; this module lifts its own hold for a change.,
             type: list, elements: str, default: []}
      unheld: {description: Not held., type: list, elements: str, default: []}
      allow_downgrade: {description: Whether an older version may replace a newer one., type: bool, default: false}
      install_recommends: {description: Whether recommended packages come along., type: bool, default: true}
      purge: {description: Whether removal takes configuration files too., type: bool, default: false}
      cache_valid_seconds: {description: "Age at which package lists are fetched again before something is installed;
                            also when a source was changed or a package is unknown.", type: int, default: 3600}
      lock_timeout_seconds: {description: How long another package manager at work is waited for., type: int,
                             default: 300}
      timeout_seconds: {description: How long one command of the package manager may take., type: int, default: 3600}
  users:
    description: Users, with a home folder and without a password.
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: User name., type: str, required: true}
      comment: {description: The full name; what is there stays when left out., type: str}
      shell: {description: Login shell; the same., type: str}
      groups: {description: Groups to be in; others are not left., type: list, elements: str, default: []}
      authorized_keys: {description: Public keys that may log in; added to those already there., type: list,
                        elements: str, default: []}
      revoked_keys: {description: Public keys that may no longer; the base64 part is enough., type: list,
                     elements: str, default: []}
      system: {description: Whether a new user's number is from the system's range., type: bool, default: false}
      state: {description: Whether the user exists. A removed user's home folder stays., type: str,
              choices: [present, absent], default: present}
  files: {default: []}
  sysctl: {description: "Kernel setting to value. With I(sysctl_path) and no settings the file is removed.", type: dict}
  sysctl_path:
    description: Where the settings are kept; one file belongs to one task.
    type: path
  units:
    description: systemd's units.
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: "With its type, such as C(chrony.service).", type: str, required: true}
      enabled: {description: Whether it starts with the machine., type: bool}
      masked: {description: Whether it can't be started at all., type: bool}
      state: {description: Whether it runs now., type: str, choices: [started, stopped]}
      restart_on: {description: "Paths (with a slash at the end: all below) and packages whose change restarts it.",
                   type: list, elements: str, default: []}
      reload_on: {description: The same for a reload., type: list, elements: str, default: []}
      daemon_reload_on: {description: "The same for systemd's own reload, which also follows by itself on a change in
                         systemd's and podman's unit folders.", type: list, elements: str, default: []}
extends_documentation_fragment: [gpufleet.fleet.common, gpufleet.fleet.common.files]
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
changed_paths: {description: Files replaced., returned: always, type: list, elements: str}
changed_packages: {description: "Packages whose version changed, dependencies included.", returned: always, type: list,
                   elements: str}
changed_users: {description: Users made or changed or removed., returned: always, type: list, elements: str}
changed_units: {description: "Unit to what was done to it, such as C(start).", returned: always, type: dict}
not_applied: {description: "C(sysctl) and C(units), each name to reason; empty where all applies.", returned: always,
              type: dict}
repaired: {description: What was found interrupted and was finished., returned: always, type: list, elements: str}
"""

from collections.abc import Iterable  # noqa: E402
from pathlib import Path  # noqa: E402 - Ansible wants its documentation above the imports
from typing import Any  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402

from ansible_collections.gpufleet.fleet.plugins.module_utils import (  # noqa: E402
    files,
    packages,
    pending_changes,
    sysctl,
    units,
    users,
)
from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import Diff, HostError  # noqa: E402

SYSCTL_PATH = "/etc/sysctl.d/60-gpufleet.conf"
SPEC = {
    "packages": packages.argument_spec(),
    "users": users.argument_spec(),
    "files": {**files.argument_spec(), "default": []},
    "sysctl": {"type": "dict"},
    "sysctl_path": {"type": "path"},
    "units": units.argument_spec(),
}


class Batch:
    """One task's work; ``result`` holds what is known of it at any time."""

    def __init__(self, params: dict[str, Any], check_mode: bool) -> None:
        self.wanted, self.check_mode = params, check_mode
        self.result: dict[str, Any] = {
            "changed": False, "changed_paths": [], "changed_packages": [], "changed_users": [], "changed_units": {},
            "not_applied": {}, "repaired": [], "diff": [],
        }  # fmt: skip

    def run(self) -> None:
        """Do everything in order."""
        for part in (
            self.apply_packages,
            self.apply_users,
            self.apply_files,
            self.apply_sysctl,
            self.apply_units,
        ):
            part()

    def apply_packages(self) -> None:
        if not self.wanted["packages"]:
            return
        done = packages.apply(self.wanted["packages"], self.check_mode)
        self.add_result(done.pop("changed"), done.pop("diff"), **done)

    def apply_users(self) -> None:
        names, diffs = users.apply(self.wanted["users"], self.check_mode)
        self.add_result(bool(names), changed_users=names)
        self.result["diff"] += diffs

    def apply_files(self) -> None:
        changes = files.plan_changes(
            [*users.key_files(self.wanted["users"]), *self.wanted["files"]], self.awaits_changes
        )
        paths = [str(change.path) for change in changes]
        if not self.check_mode:
            self.record_pending({*paths, *self.result["changed_packages"]})
            files.apply_changes(changes)
        for change in changes:
            self.add_result(True, change.diff())
        self.result["changed_paths"] += paths

    def apply_sysctl(self) -> None:
        settings, path = self.wanted["sysctl"], self.wanted["sysctl_path"]
        if settings is None or not (settings or path):
            return
        done = sysctl.apply(Path(path or SYSCTL_PATH), settings, self.check_mode)
        self.add_result(done["changed"], done["diff"] if done["rewritten"] else None)
        self.result["changed_paths"] += [path or SYSCTL_PATH] if done["rewritten"] else []
        if done["not_applied"]:
            self.result["not_applied"]["sysctl"] = done["not_applied"]

    def apply_units(self) -> None:
        if not self.wanted["units"]:
            return
        touched = {*self.result["changed_paths"], *self.result["changed_packages"]} | self.matching_triggers(
            pending_changes.read_pending()
        )
        pending = self.check_mode and bool(touched)
        work = units.Units(self.wanted["units"], touched, self.check_mode, pending)
        work.apply()
        self.add_result(bool(work.changed), changed_units=work.changed)
        if work.not_applied:
            self.result["not_applied"]["units"] = work.not_applied
        left = pending_changes.read_pending()
        if left and not self.check_mode:
            pending_changes.write_pending(left - self.matching_triggers(left))

    @property
    def awaits_changes(self) -> bool:
        """Return whether this is a trial in which packages or users are yet to come."""
        return self.check_mode and bool(self.result["changed_packages"] or self.result["changed_users"])

    def matching_triggers(self, names: Iterable[str]) -> set[str]:
        """Return those of the paths and packages that a unit of this task waits for."""
        rules = [
            rule
            for unit in self.wanted["units"]
            for rule in [*unit["restart_on"], *unit["reload_on"], *unit["daemon_reload_on"]]
        ]
        return {thing for thing in names if units.matches_any(rules, [thing])}

    def record_pending(self, names: set[str]) -> None:
        """Record what this task's units are to take up, before it is changed."""
        mine = self.matching_triggers(names)
        if mine:
            pending_changes.write_pending(pending_changes.read_pending() | mine)

    def add_result(self, changed: bool, diff: Diff | None = None, **more: Any) -> None:
        """Add one part's outcome to the result."""
        self.result["changed"] = self.result["changed"] or changed
        self.result["diff"] += [diff] if diff else []
        self.result.update(more)


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    batch = Batch(module.params, module.check_mode)
    # Ansible would send all arguments back with the result: kilobytes a task and host, and secrets among them.
    batch.result["invocation"] = {"module_args": {"parts": sorted(key for key in SPEC if module.params[key])}}
    try:
        batch.run()
    except HostError as trouble:
        module.fail_json(msg=trouble.msg, **{**batch.result, **trouble.more})
    if not (module.check_mode or module._diff):  # noqa: SLF001 - Ansible's own modules read it so
        del batch.result["diff"]
    module.exit_json(**batch.result)


if __name__ == "__main__":
    main()
