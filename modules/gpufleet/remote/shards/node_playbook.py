#!/usr/bin/env python3
"""Runs on a mesh node in place of ansible-playbook: checks the node's versions, then starts Ansible supervised.

Standard library only: it is sent with the shard, as ``bin/ansible-playbook``, next to the supervisor. That ends
Ansible's workers and SSH connections when the unit is cancelled or ansible-runner dies, and removes the folder.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

# No module of the current folder: `python -P`, which a node's Python may be too old for.
VERSIONS = """\
import sys
sys.path[:] = filter(None, sys.path)
from importlib.metadata import version
print(*map(version, sys.argv[1:]))
"""
NOT_USABLE = 4  # what ansible-playbook returns for bad input


def main() -> int:
    """Check the node; become the supervised ansible-playbook."""
    folder = Path(__file__).resolve().parent.parent
    ansible_runner = find_ansible_runner()
    if ansible_runner is None:
        return report_error("ansible-runner did not start this program")
    python, programs = ansible_runner
    problem = find_version_problem(python, json.loads((folder / "bin" / "versions.json").read_text()))
    if problem:
        return report_error(problem)
    os.environ["PATH"] = os.pathsep.join([str(programs), os.environ.get("PATH", os.defpath)])
    for name in ("cp", "tmp"):
        (folder / name).mkdir(mode=0o700, exist_ok=True)
    supervisor = [
        python,
        str(folder / "bin" / "supervisor.py"),
        "--scratch",
        str(folder),
        "--grace",
        "0",
        "--",
    ]
    command = [*supervisor, str(programs / "ansible-playbook"), *sys.argv[1:]]
    return os.execv(command[0], command)  # noqa: S606 - no shell on purpose


def find_ansible_runner() -> tuple[str, Path] | None:
    """Return the interpreter of the ansible-runner above this process, and the folder of its programs."""
    pid = os.getppid()
    while pid > 1:
        arguments = [os.fsdecode(part) for part in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")]
        script = Path(arguments[1]) if len(arguments) > 1 else Path()
        if script.name == "ansible-runner":
            return arguments[0], script.resolve().parent
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return None


def find_version_problem(python: str, versions: dict[str, str]) -> str:
    """Return which package has another version than on the controller, empty if none has."""
    names = sorted(versions)
    answer = subprocess.run([python, "-c", VERSIONS, *names], capture_output=True, text=True, check=False)
    if answer.returncode:
        return (answer.stderr.strip().splitlines() or ["its packages cannot be read"])[-1]
    for name, installed in zip(names, answer.stdout.split()):  # noqa: B905 - a node may start this with Python 3.9
        if installed != versions[name]:
            return f"this node has {name} {installed}, the controller {versions[name]}: install the same"
    return ""


def report_error(problem: str) -> int:
    """Print the one line that the controller shows."""
    print(f"mesh node not usable: {problem}", flush=True)
    return NOT_USABLE


if __name__ == "__main__":
    sys.exit(main())
