# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""The part of Ansible's AnsibleModule that our modules use; on the host it stands at `ansible.module_utils.basic`.

Arguments come checked from the controller (`courier.py`), so nothing is validated again.
"""

from __future__ import annotations

import json
import os
import shutil
import sys

MARK = "gpufleet-result:"


class AnsibleModule:
    """What a module is given, and how it answers."""

    given = None  # params, check_mode and diff; `courier_start.py` sets them

    def __init__(self, argument_spec=None, supports_check_mode=False, **_rules):
        self.argument_spec = argument_spec
        self.params, self.check_mode = self.given["params"], self.given["check_mode"]
        self._diff = self.given["diff"]
        self._warnings = []
        if self.check_mode and not supports_check_mode:
            self.exit_json(skipped=True, msg="this module has no check mode")

    def warn(self, text):
        self._warnings.append(text)

    def _answer(self, result, status):
        if self._warnings:
            result["warnings"] = self._warnings
        sys.stdout.write(f"\n{MARK}{json.dumps(result)}\n")
        sys.stdout.flush()
        sys.exit(status)

    def exit_json(self, **result):
        self._answer({"changed": False, **result}, 0)

    def fail_json(self, msg, **result):
        self._answer({"changed": False, **result, "msg": msg, "failed": True}, 1)

    def run_command(self, args, check_rc=False, data=None, environ_update=None, cwd=None):
        """Run a program, as Ansible's own does for a list of arguments."""
        import subprocess

        done = subprocess.run(
            args, input=data, stdin=subprocess.DEVNULL if data is None else None, cwd=cwd, check=False,
            env={**os.environ, "LC_ALL": "C", **(environ_update or {})}, capture_output=True, encoding="utf-8",
            errors="replace",
        )  # fmt: skip
        if check_rc and done.returncode:
            self.fail_json(
                msg=done.stderr.strip() or f"{args[0]}: status {done.returncode}", rc=done.returncode
            )
        return done.returncode, done.stdout, done.stderr

    def get_bin_path(self, arg, required=False, opt_dirs=None):
        """Find a program where Ansible's own looks."""
        folders = [os.environ.get("PATH", ""), *(opt_dirs or []), "/sbin", "/usr/sbin", "/usr/local/sbin"]
        found = shutil.which(arg, path=":".join(folders))
        if required and not found:
            self.fail_json(msg=f"{arg} is not on this host")
        return found
