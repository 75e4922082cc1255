"""A copy of the checkout and a virtual environment that sees the copy: nothing is ever mutated in place."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rooms import ROOT

# Runs at the start of every Python of the sandbox, also of those that tests start: notes what a test executes.
CHILD = '''"""Measure what a program that a test starts executes, while coverage is being measured."""
import os, sys
mark = os.path.join(sys.prefix, "current-test")
if os.path.exists(mark):
    try:
        import atexit, coverage
        with open(mark) as file:
            test, data, *source = file.read().split("\\n")
        measured = coverage.Coverage(data_file=data, data_suffix=True, source=source, context=test, config_file=False)
        measured.start()
        atexit.register(lambda: (measured.stop(), measured.save()))
    except Exception:
        pass
'''


class Sandbox:
    """The copy at ``root``, with its Python at ``python``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.prefix = root / ".venv"
        self.python = self.prefix / "bin/python"
        self._clock = 1_000_000_000

    def make(self) -> None:
        """Copy what git knows and does not ignore; the environment borrows every package of ours."""
        tracked_files = subprocess.run(
            ["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True
        ).stdout.decode()
        for name in filter(None, tracked_files.split("\0")):
            source, target = ROOT / name, self.root / name
            if source.is_file() or source.is_symlink():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target, follow_symlinks=False)
        git = ["git", "-c", "user.name=mutants", "-c", "user.email=mutants@localhost", "-C", str(self.root)]
        for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "copy"]):
            subprocess.run([*git, *command], check=True)
        self._environment()

    def _environment(self) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", self.prefix], check=True)
        (packages,) = self.prefix.glob("lib/python*/site-packages")
        site_packages = sysconfig.get_paths()["purelib"]
        # A plain path, not a site folder: the .pth file in ours would add the checkout that must not be used.
        (packages / "mutants.pth").write_text(
            f"{self.root}/modules\n{site_packages}\nimport mutation_child\n"
        )
        (packages / "mutation_child.py").write_text(CHILD)
        for script in Path(sysconfig.get_paths()["scripts"]).iterdir():
            copy = self.prefix / "bin" / script.name
            if copy.exists() or not script.is_file():
                continue
            first, _, rest = script.read_bytes().partition(b"\n")
            if first.startswith(b"#!") and b"python" in first:
                copy.write_bytes(f"#!{self.python}\n".encode() + rest)
                copy.chmod(0o755)
            else:
                copy.symlink_to(script)

    @contextlib.contextmanager
    def apply_mutant(self, file: str, source: str) -> Iterator[None]:
        """Give a file another content for a while.

        Compiled files are recognised by a time in seconds and a size, and a mutant is written twice within a
        second: each gets a time of its own.
        """
        path = self.root / file
        before, times = path.read_bytes(), path.stat()
        self._clock += 10
        try:
            path.write_text(source)
            os.utime(path, (self._clock, self._clock))
            yield
        finally:
            path.write_bytes(before)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    def clean_environment(self) -> dict[str, str]:
        """Return an environment in which tests write only inside the sandbox."""
        folder = self.root.parent
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("GPUFLEET")}
        inherited.pop("PYTHONPATH", None)
        return inherited | {
            "PATH": f"{self.prefix}/bin{os.pathsep}{os.environ['PATH']}",
            "VIRTUAL_ENV": str(self.prefix),
            "TMPDIR": str(folder / "tmp"),
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_DATA_HOME": str(folder / "data"),
        }


@contextlib.contextmanager
def sandbox() -> Iterator[Sandbox]:
    """Create a sandbox; it is removed afterwards, also after an interrupt."""
    folder = Path(tempfile.mkdtemp(prefix="gpufleet-mutants-"))
    try:
        (folder / "tmp").mkdir()
        copy = Sandbox(folder / "copy")
        copy.root.mkdir()
        copy.make()
        yield copy
    finally:
        shutil.rmtree(folder, ignore_errors=True)
