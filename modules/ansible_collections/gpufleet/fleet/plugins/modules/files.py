# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Write a set of small files in one call, each validated before it replaces the old one."""

from __future__ import annotations

DOCUMENTATION = """
module: files
short_description: Write a set of small files after all of them are validated
description:
  - Every new content is first written to a temporary file in memory and given to its validator. Files are replaced
    only if all are accepted, each in one atomic rename. So a rejected content never reaches its path, and a role's
    files need one round trip instead of one or two each.
  - If a replacement fails (a full disk), files that were replaced before it stay; the message names both.
options:
  files: {required: true}
extends_documentation_fragment: [gpufleet.fleet.common, gpufleet.fleet.common.files]
"""

EXAMPLES = """
- name: Let operators use sudo
  gpufleet.fleet.files:
    files:
      - path: /etc/sudoers.d/operators
        content: "ops ALL=(ALL:ALL) NOPASSWD: ALL\\n"
        mode: "0440"
        validate: [visudo, -cf, "{}"]
"""

RETURN = """
changed_paths: {description: Files that were replaced., returned: always, type: list, elements: str}
"""

from ansible.module_utils.basic import AnsibleModule  # noqa: E402 - Ansible wants its documentation above the imports

from ansible_collections.gpufleet.fleet.plugins.module_utils import files as work  # noqa: E402
from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import HostError  # noqa: E402

SPEC = {"files": work.file_argument_spec(required=True)}


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True)
    try:
        changes = work.plan_file_changes(module.params["files"])
        if not module.check_mode:
            work.apply_file_changes(changes)
    except HostError as error:
        # Without arguments, as below.
        module.fail_json(msg=error.msg, invocation={"module_args": {}}, **error.result)
    paths = [str(change.path) for change in changes]
    result = {"changed": bool(changes), "changed_paths": paths}
    # Ansible would send all arguments back with the result: the files' contents, and secrets among them.
    result["invocation"] = {"module_args": {"files": [entry["path"] for entry in module.params["files"]]}}
    if module.check_mode or module._diff:  # noqa: SLF001 - Ansible's own modules read it so
        result["diff"] = [change.build_diff() for change in changes]
    module.exit_json(**result)


if __name__ == "__main__":
    main()
