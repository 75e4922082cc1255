"""A host of its own for package managers: this machine's file system under an overlay, entered with chroot.

What a command changes stays in memory and ends with the host. Programs, also dnf and rpm, are this machine's.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

PROGRAMS = Path(sys.executable).parent
SETUP = """
set -e
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
mount --rbind /proc "$1/root/proc"
mount --rbind /dev "$1/root/dev"
mount --bind "$2" "$1/root/$2"
echo ready
exec sleep infinity
"""


class OverlayHost:
    """A host that lasts until ``stop``; ``shared`` is a folder that it has in common with the test."""

    def __init__(self, mount_point: Path, shared: Path) -> None:
        self.root, self.shared = mount_point / "root", shared
        self.results = 0
        self.holder = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", SETUP, "setup", mount_point, shared],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.holder.stdout.readline() == "ready\n"

    def run(self, *argv, env=None, check=True):
        """Run a command on the host."""
        settings = [f"{name}={value}" for name, value in (env or {}).items()]
        enter = ["nsenter", f"--mount=/proc/{self.holder.pid}/ns/mnt", "chroot", self.root, "/usr/bin/env"]
        done = subprocess.run([*enter, *settings, *argv], capture_output=True, text=True, check=False)
        assert not check or done.returncode == 0, f"{shlex.join(map(str, argv))}\n{done.stdout}{done.stderr}"
        return done

    def write(self, path, text):
        self.run("mkdir", "-p", str(Path(path).parent))
        shared = self.shared / "written"
        shared.write_text(text)
        self.run("cp", shared, path)

    def read(self, path):
        return self.run("cat", path).stdout

    def has(self, path):
        return self.run("test", "-e", path, check=False).returncode == 0

    def ansible(self, module, arguments, *options, env=None):
        """Run one module of Ansible on the host over its local connection and return the module's result."""
        self.results += 1
        tree = self.shared / f"results-{self.results}"
        settings = {
            "ANSIBLE_INJECT_FACT_VARS": "False",
            "ANSIBLE_LOCALHOST_WARNING": "False",
            "ANSIBLE_PIPELINING": "1",
            "ANSIBLE_PYTHON_INTERPRETER": "/usr/bin/python3",
            "HOME": "/root",
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        }
        command = [
            PROGRAMS / "ansible",
            "localhost",
            "-i",
            "localhost,",
            "-c",
            "local",
            "-t",
            tree,
            "-m",
            module,
        ]
        done = self.run(
            *command, "-a", json.dumps(arguments), *options, env=settings | (env or {}), check=False
        )
        result = tree / "localhost"
        assert result.exists(), done.stdout + done.stderr
        return json.loads(result.read_text()) | {"failed": done.returncode != 0}

    def play(self, *plays):
        """Run plays on the host over its local connection; return the output."""
        book = self.shared / "play.json"
        book.write_text(json.dumps(plays))
        settings = {
            "ANSIBLE_INJECT_FACT_VARS": "False",
            "ANSIBLE_PIPELINING": "1",
            "HOME": "/root",
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        }
        command = [PROGRAMS / "ansible-playbook", "-i", "localhost,", "-c", "local", book]
        return self.run(
            *command, "-e", "ansible_python_interpreter=/usr/bin/python3", env=settings, check=False
        )

    def module(self, name, arguments, check_mode=False, env=None):
        """Run one module of the collection on the host without Ansible, in a tenth of the time."""
        stdin = {"ANSIBLE_MODULE_ARGS": {**arguments, "_ansible_check_mode": check_mode}}
        done = self.run(
            sys.executable, "-m", f"ansible_collections.gpufleet.fleet.plugins.modules.{name}", json.dumps(stdin),
            env={"HOME": "/root", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"} | (env or {}), check=False,
        )  # fmt: skip
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    def stop(self):
        self.holder.kill()
        self.holder.wait()
