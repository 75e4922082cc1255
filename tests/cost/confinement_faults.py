"""Let each system call of a confinement fail in turn, in a small process of its own: a fork copies all its memory.

Usage: python confinement_faults.py FOLDER HOME CODE. Prints one JSON line for each call: its number, what the confined
code reached if it ran, and the name of the call that failed. Ends after the last call.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from contextlib import suppress
from pathlib import Path

from gpufleet.cost.inputs.program import sandbox
from gpufleet.cost.inputs.program.sandbox import system_call

MAX_CALLS = 1000
OS_CALLS = ("open", "mkdir", "makedirs", "symlink", "readlink", "dup", "fstat", "fchdir", "chdir")


class Faults:
    """Lets the call with one number fail, counted through all processes of a confined call up to the call itself."""

    def __init__(self, number, code):
        self.number, self.code, self.count, self.name = number, code, 0, ""

    def wrap(self, name, function):
        def call(*arguments, **options):
            self.count += 1
            if self.count == self.number:
                self.name = f"{name} {getattr(arguments[0], 'value', arguments[0])}" if arguments else name
                raise OSError(self.code, f"injected into {name}")
            return function(*arguments, **options)

        return call

    def install(self):
        library = system_call.LIBRARY

        class Library:
            def __getattr__(_, name):  # noqa: N805 - self is the outer one
                return self.wrap(name, getattr(library, name))

        system_call.LIBRARY = Library()
        for name in OS_CALLS:
            setattr(os, name, self.wrap(name, getattr(os, name)))


def prepare(folder, home):
    """Make a project with a large file, a folder outside of it and a link there; return the bounds of a call."""
    project, view, outside = home / "project", folder / "view", folder / "outside"
    for each in (project, view, outside):
        each.mkdir()
    (project / "large").write_text("part")
    (view / "large").touch()
    (folder / "link").symlink_to("outside")
    return {
        "trusted": False,
        "may_be_unconfined": False,
        "cpu_s": 60,
        "visible": [str(folder / "link"), str(outside)],
        "covered": str(home),
        "project": {"folder": str(project), "view": str(view), "parts": ["large"]},
        "mounted": [],
    }


def run_with_fault(bounds, home, number, code):
    """Confine a call in a process whose system call with a number fails; return what ran, and the fault."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            os.close(reading)
            os.dup2(os.open("/dev/zero", os.O_RDONLY), 0)  # no end: the parent lives
            faults = Faults(number, code)
            faults.install()
            supervisor = sandbox.start_sandboxed_call(
                bounds,
                lambda: write_line(
                    writing, {"ran": try_to_leak(home), "count": faults.count, "name": faults.name}
                ),
                lambda report: write_line(writing, {"report": report, "name": faults.name}),
            )
            os.waitpid(supervisor, 0)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        lines = [json.loads(line) for line in file]
    os.waitpid(child, 0)
    return {key: value for line in lines for key, value in line.items()}


def write_line(descriptor, document):
    os.write(descriptor, f"{json.dumps(document)}\n".encode())


def try_to_leak(home):
    leaks = []
    for path in (home / ".aws/credentials", Path("/proc/1/environ")):
        with suppress(OSError):
            leaks.append(path.read_bytes().replace(b"\0", b" ").decode())
    with suppress(OSError):
        (home / "marker").write_text("written")  # to a file system of its own, at most
    return leaks


def main(folder, home, code):
    bounds = prepare(folder, home)
    for number in itertools.count(1):
        own = folder / f"folder{number}"
        own.mkdir()
        outcome = run_with_fault(bounds | {"folder": str(own)}, home, number, code)
        print(json.dumps({"number": number, "has_marker": (home / "marker").exists()} | outcome), flush=True)
        if outcome.get("count", number) < number or number == MAX_CALLS:
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
