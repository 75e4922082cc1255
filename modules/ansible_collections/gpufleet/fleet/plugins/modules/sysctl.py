# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Keep kernel settings in one file, apply those the kernel allows, and say which it does not."""

from __future__ import annotations

DOCUMENTATION = """
module: sysctl
short_description: Keep kernel settings in one file and apply them, honest about those that cannot be
description:
  - Writes all settings to one file in C(/etc/sysctl.d), so that they hold from the next start on, then sets each
    that differs in the running kernel. In a container most can't be set, and on an older kernel some don't exist;
    C(not_applied) names each with the reason, and is not an error.
options:
  path: {description: The file., type: path, required: true}
  settings: {description: Setting to value., type: dict, required: true}
author: gpufleet contributors
"""

EXAMPLES = """
- name: Harden the kernel
  gpufleet.fleet.sysctl:
    path: /etc/sysctl.d/60-gpufleet.conf
    settings: {kernel.kptr_restrict: 2}
"""

RETURN = """
applied: {description: Settings set in the running kernel by this call., returned: always, type: list}
not_applied: {description: Setting to reason., returned: always, type: dict}
"""

import os  # noqa: E402 - Ansible wants its documentation above the imports
import tempfile  # noqa: E402
from pathlib import Path  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402

LIVE = Path("/proc/sys")


def render(settings):
    """Return the file's text."""
    body = "".join(f"{key} = {settings[key]}\n" for key in sorted(settings))
    return f"# Written by gpufleet; changes made here are overwritten.\n{body}"


def live_path(key, root=LIVE):
    """Return where the kernel keeps a setting."""
    return root / key.replace(".", "/")


def same(live, wanted):
    """Compare as the kernel does: fields, not spaces."""
    return live.split() == str(wanted).split()


def set_live(key, wanted, check_mode, root=LIVE):
    """Set one value; return True when set, False when it already was, or the reason why it can't be."""
    path = live_path(key, root)
    try:
        if same(path.read_text(encoding="ascii"), wanted):
            return False
        if check_mode:
            return True if os.access(path, os.W_OK) else "not writable here"
        path.write_text(f"{wanted}\n", encoding="ascii")
    except FileNotFoundError:
        return "this kernel does not have it"
    except OSError as trouble:
        return trouble.strerror.lower()
    return True


def write(path, text):
    """Replace the file in one rename."""
    handle, name = tempfile.mkstemp(prefix=".gpufleet-", dir=path.parent)
    fresh = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="ascii") as stream:
            stream.write(text)
        fresh.chmod(0o644)
        fresh.replace(path)
    except BaseException:
        fresh.unlink()
        raise


def main():
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "settings": {"type": "dict", "required": True},
        },
        supports_check_mode=True,
    )
    path, settings = Path(module.params["path"]), module.params["settings"]
    before, after = path.read_text(encoding="utf-8") if path.exists() else "", render(settings)
    if before != after and not module.check_mode:
        try:
            write(path, after)
        except OSError as trouble:
            module.fail_json(msg=f"cannot write {path}: {trouble.strerror}")
    outcome = {key: set_live(key, settings[key], module.check_mode) for key in sorted(settings)}
    applied = [key for key, value in outcome.items() if value is True]
    module.exit_json(
        changed=bool(before != after or applied),
        applied=applied,
        not_applied={key: value for key, value in outcome.items() if isinstance(value, str)},
        diff={"before_header": str(path), "after_header": str(path), "before": before, "after": after},
    )


if __name__ == "__main__":
    main()
