# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Run a module of ours on a host without AnsiballZ, whose start costs the host more than the work itself.

AnsiballZ sends each call a zip of sources; Python keeps no bytecode for those, so the host compiles Ansible's `basic`
and all that it imports anew every time: about 0.45 s of processor time where our own code needs 0.05 s. The courier
sends our sources once more each call (a few kilobytes), but the host unpacks them into /run and keeps their bytecode.
Arguments are checked here, on the controller, by Ansible's own validator.

Where it can't be (no pipelining, an asynchronous task) the module runs the ordinary way: same file, same result.
"""

from __future__ import annotations

import ast
import base64
import copy
import hashlib
import importlib
import json
import shlex
import zlib
from functools import cache
from pathlib import Path

from ansible import constants
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.common.json import Direction, get_module_encoder
from ansible.plugins.action import ActionBase

PLUGINS = Path(__file__).resolve().parents[1]
PACKAGE = "ansible_collections.gpufleet.fleet.plugins"
UTILS = f"{PACKAGE}.module_utils"
MARK = "gpufleet-result:"


class CourierAction(ActionBase):
    """An action whose module exposes its options as ``SPEC``; a subclass needs no code."""

    TRANSFERS_FILES = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        if not self._is_pipelining_enabled("new", wrap_async=bool(self._task.async_val)):
            result.update(self._execute_module(task_vars=task_vars, wrap_async=self._task.async_val))
            return result
        result.update(self.deliver(self._task.action.rpartition(".")[2], self._task.args, task_vars))
        return result

    def deliver(self, name, arguments, task_vars):
        """Run the module on the host with checked arguments; return its result."""
        module = importlib.import_module(f"{PACKAGE}.modules.{name}")
        checked = ArgumentSpecValidator(unexpanded(module.SPEC)).validate(dict(arguments))
        if checked.error_messages:
            return {"failed": True, "msg": f"{name}: {'; '.join(checked.error_messages)}"}
        given = {
            "params": checked.validated_parameters,
            "check_mode": self._task.check_mode,
            "diff": self._task.diff,
        }
        text = json.dumps(given, cls=get_module_encoder("legacy", Direction.CONTROLLER_TO_MODULE))
        python = constants.config.get_config_value("INTERPRETER_PYTHON", variables=task_vars)
        python = self._templar.template(python)
        python = "/usr/bin/python3" if str(python).startswith("auto") else str(python)
        command = f"{self._compute_environment_string()} {shlex.quote(python)} -".strip()
        done = self._low_level_execute_command(command, sudoable=True, in_data=program(name, text))
        return outcome(name, done)


def unexpanded(spec):
    """Return the options with paths as plain text: what ``~`` means is the host's business, not the controller's."""
    spec = copy.deepcopy(spec)
    for option in spec.values():
        if option.get("type") == "path":
            option["type"] = "str"
        if "options" in option:
            option["options"] = unexpanded(option["options"])
    return spec


def outcome(name, done):
    """Return the result that the module printed, or a failure that says what it said instead."""
    out, err, status = done.get("stdout", ""), done.get("stderr", ""), done.get("rc", 0)
    line = next((line for line in out.splitlines() if line.startswith(MARK)), None)
    if line is not None:
        return json.loads(line[len(MARK) :])
    said = [line.strip() for line in f"{out}\n{err}".splitlines() if line.strip()]
    why = said[-1] if said else "it said nothing"
    return {
        "failed": True,
        "msg": f"{name} broke off (status {status}): {why}",
        "rc": status,
        "module_stderr": err,
    }


def program(name, given):
    """Return the Python program for a host: the starter, the sources and the arguments."""
    digest, bundle = bundled(name)
    starter = (PLUGINS / "plugin_utils" / "courier_start.py").read_text(encoding="utf-8")
    return f"{starter}\nstart({name!r}, {digest!r}, {bundle!r}, {given!r})\n".encode()


@cache
def bundled(name):
    """Return the digest and the packed sources of a module, of what it imports of ours, and of our AnsibleModule."""
    folder = PACKAGE.replace(".", "/")
    files = [f"modules/{name}.py"]
    files += [f"module_utils/{used}.py" for used in sorted(closure((PLUGINS / files[0]).read_text()))]
    sources = {f"{folder}/{file}": (PLUGINS / file).read_text() for file in files}
    sources["ansible/module_utils/basic.py"] = (PLUGINS / "plugin_utils" / "courier_basic.py").read_text()
    # A host may have Ansible itself: only real packages in our folder come before those of its Python.
    sources |= {
        f"{parent}/__init__.py": "" for file in [*sources] for parent in Path(file).parents if parent.name
    }
    text = json.dumps(sources, sort_keys=True).encode()
    return hashlib.sha256(text).hexdigest()[:16], base64.b64encode(zlib.compress(text, 9)).decode()


def closure(text, known=()):
    """Return the names of our module_utils that a source needs, directly or not."""
    needed = set(known)
    for name in imports(text):
        if name not in needed:
            needed |= closure((PLUGINS / f"module_utils/{name}.py").read_text(), {*needed, name})
    return needed


def imports(text):
    """Yield the names of our module_utils that a source imports itself."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith(UTILS):
            continue
        below = node.module[len(UTILS) + 1 :]
        yield from [below] if below else [alias.name for alias in node.names]
