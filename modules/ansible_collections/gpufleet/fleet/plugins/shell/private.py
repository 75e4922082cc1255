# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Ansible's own POSIX shell, with temporary folders that no other login of the host can reach or prepare."""

from __future__ import annotations

DOCUMENTATION = """
name: private
short_description: POSIX shell (/bin/sh) that refuses a temporary folder that others can write to
description:
  - Like C(sh). Before a file is copied to a host, the folder for it (O(remote_tmp)) must belong to the login and be
    writable by nobody else, and so must every folder above it, unless it belongs to root. A symbolic link, a
    folder of another user, or one that its group or everybody can write to, is refused with one line.
  - If less than 8 MiB are left for temporary files, root's modules are unpacked below C(/run), which is memory. So a
    full disk can be reported and repaired.
extends_documentation_fragment:
  - shell_common
author: gpufleet contributors (@gpufleet)
"""

import shlex  # noqa: E402 - Ansible wants its documentation above the imports

from ansible.plugins.shell.sh import ShellModule as PosixShell  # noqa: E402

# Standard output, since Ansible shows nothing else of a folder that could not be made.
CHECK = """refuse() {{ echo "gpufleet: the temporary folder is refused: $1"; exit 1; }}
umask 077
mkdir -p {base} || refuse "cannot make $(echo {base})"
[ ! -L {base} ] || refuse "$(echo {base}) is a symbolic link"
cd -P {base} || refuse "cannot enter $(echo {base})"
base=$(pwd -P) me=$(id -u)
[ -n "$(find "$base" -prune -user "$me" ! -perm -020 ! -perm -002)" ] ||
  refuse "$base must belong to this login, and nobody else may write to it (chmod go-w)"
above=$base
while [ "$above" != / ]; do
  above=$(dirname "$above")
  [ -n "$(find "$above" -prune '(' -user 0 -o -user "$me" ')' '(' -perm -1000 -o ! -perm -020 ! -perm -002 ')')" ] ||
    refuse "$above, which holds it, must belong to this login or root, and nobody else may write to it (chmod go-w)"
done
mkdir {name} && echo {name}="$base"/{name}"""

# Without another TMPDIR where there is room: mkinitramfs and others read it, too.
ROOM = """$(set -- $(df -Pk "${TMPDIR:-/tmp}" 2>/dev/null | tail -n 1); """
ROOM += """[ "${4:-8192}" -ge 8192 ] || [ ! -w /run ] || echo TMPDIR=/run)"""


class ShellModule(PosixShell):
    SHELL_FAMILY = "sh"

    def mkdtemp(
        self, basefile: str | None = None, system: bool = False, mode: int = 0o700, tmpdir: str | None = None
    ) -> str:
        """Return the command that makes a temporary folder and prints its name, as Ansible expects it.

        With ``system`` the folder is below /tmp, where a second, unprivileged login can read it, as in Ansible.
        """
        if system:
            return str(super().mkdtemp(basefile, system, mode, tmpdir))
        name = basefile or self._generate_temp_dir_name()
        base = tmpdir or self.get_option("remote_tmp")
        home, slash, rest = base.partition("/")
        quoted = f"{home}{slash}{shlex.quote(rest)}" if home == "~" else shlex.quote(base)
        return f"( {CHECK.format(base=quoted, name=shlex.quote(name))} )"

    def build_module_command(
        self, env_string: str, shebang: str, cmd: str, arg_path: str | None = None
    ) -> str:
        """Return the command that starts a module."""
        return f"env {ROOM} {super().build_module_command(env_string, shebang, cmd, arg_path)}"
