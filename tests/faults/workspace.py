"""The workspace of a fault run: its own project, state folder and temporary folder, all marked.

Everything that a run starts inherits an environment variable with the run's name, so that a process which
outlives it is found through /proc.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "tests" / "cases"
MARK = "GPUFLEET_FAULT_RUN"
HANG_SECONDS = 300
PROJECT_PARTS = ("Pulumi.yaml", "stacks", "inventory", "playbooks")
KEPT_VARIABLES = ("LANG", "USER", "SSL_CERT_FILE", "GOPROXY", "GOFLAGS")
EXIT_CODES = {0, 1, 2, 3, 130, -signal.SIGKILL}


@dataclass(frozen=True)
class CommandResult:
    """The exit code and output of one command."""

    arguments: tuple[str, ...]
    code: int
    out: str
    err: str

    def __str__(self) -> str:
        last_lines = [text.strip().splitlines()[-2:] for text in (self.err, self.out) if text.strip()]
        text = " | ".join(line for lines in last_lines for line in lines) or "no output"
        return f"`{' '.join(self.arguments)}` exit {self.code}: {text}"


class Running:
    """A command on its way, with its output in files: a killed reader can then not block it."""

    def __init__(self, run: Run, arguments: tuple[str, ...], env: dict[str, str], cwd: Path) -> None:
        self.run, self.arguments = run, arguments
        number = len(list(run.streams.iterdir()))
        self._out = run.streams / f"{number}.out"
        self._err = run.streams / f"{number}.err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                arguments, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err
            )

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """Kill it; ignore one that has already ended."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()

    def wait(self) -> CommandResult:
        """Return its result; a command that hangs is a violation and is killed."""
        try:
            code = self.process.wait(HANG_SECONDS)
        except subprocess.TimeoutExpired:
            self.run.violate(f"`{' '.join(self.arguments)}` did not end in {HANG_SECONDS} s")
            self.process.kill()
            code = self.process.wait()
        result = CommandResult(self.arguments, code, _text(self._out), _text(self._err))
        self.run.inspect(result)
        return result


@dataclass
class Run:
    """One fault run: its folders, its random numbers and what it found wrong."""

    workspace: Workspace
    kind: str
    seed: int
    folder: Path
    rng: random.Random
    violations: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    closing: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def __post_init__(self) -> None:
        self.project, self.home = self.folder / "project", self.folder / "project" / ".gpufleet"
        self.tmp, self.streams = self.folder / "tmp", self.folder / "streams"
        for folder in (self.tmp, self.streams, self.folder / "user"):
            folder.mkdir(parents=True)
        shutil.copytree(self.workspace.template, self.project, symlinks=True)
        self.mark = self.folder.name
        self.env = self.workspace.environment() | {
            MARK: self.mark,
            "HOME": str(self.folder / "user"),
            "TMPDIR": str(self.tmp),
            "GPUFLEET_HOME": str(self.home),
        }

    @property
    def database(self) -> str:
        """Return the registry's URL."""
        return self.env.get("GPUFLEET_DATABASE_URL") or f"sqlite:///{self.home / 'registry.db'}"

    def violate(self, sentence: str) -> None:
        """Record that an invariant does not hold."""
        if sentence not in self.violations:
            self.violations.append(sentence)

    def expect(self, condition: Any, sentence: str) -> None:
        """Record a violation unless the condition holds."""
        if not condition:
            self.violate(sentence)

    def inspect(self, result: CommandResult) -> None:
        """Check what every gpufleet command must satisfy: a known exit code and no traceback."""
        self.expect(result.code in EXIT_CODES, f"unknown exit code: {result}")
        # The engine prints its Python host's own tracebacks where a plugin was killed under it.
        for stream in (result.out, result.err) if result.arguments[0] != "bash" else ():
            self.expect("Traceback (most recent call last)" not in stream, f"traceback: {result}")

    def start(
        self, *arguments: Any, program: str = "gpufleet", cwd: Path | None = None, **env: str
    ) -> Running:
        """Start one of our commands, or another program."""
        command = (program, *map(str, arguments))
        return Running(self, command, self.env | env, cwd or self.project)

    def call(self, *arguments: Any, **more: Any) -> CommandResult:
        """Run a command to its end."""
        return self.start(*arguments, **more).wait()

    def succeed(self, *arguments: Any, **more: Any) -> CommandResult:
        """Run a command that must succeed; anything else is a violation."""
        result = self.call(*arguments, **more)
        self.expect(result.code == 0, f"the same command again does not converge: {result}")
        return result

    def interrupt(self, running: Running, watched: Path, total_seconds: float) -> bool:
        """SIGKILL a command: at any moment, or soon after it first changes a watched file or folder.

        Return True if the command still ran then.
        """
        if self.rng.random() < 0.4:
            self.pause(self.rng.uniform(0, total_seconds), running)
        else:
            before = signature(watched)
            delay = self.rng.uniform(0, 0.12)
            self.until(lambda: signature(watched) != before or not running.is_alive)
            self.pause(delay, running)
        alive = running.is_alive
        running.kill()
        self.notes.append("killed" if alive else "it ended before the kill")
        return alive

    def pause(self, seconds: float, running: Running | None = None) -> None:
        """Sleep, or less when the command ends meanwhile."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and (running is None or running.is_alive):
            time.sleep(min(0.005, seconds))

    def until(self, condition: Callable[[], Any], seconds: float = 60.0) -> bool:
        """Wait for a condition; return False if it never holds."""
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                return False
            time.sleep(0.002)
        return True

    def processes(self) -> dict[int, str]:
        """Return the other processes with this run's mark: pid to command line."""
        mark = f"{MARK}={self.mark}".encode()
        command_lines = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            with contextlib.suppress(OSError):
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    command_line = (
                        (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    )
                    command_lines[int(entry.name)] = command_line.strip()
        return command_lines

    def close(self) -> None:
        """Undo the run's mounts and changes, stop its remaining processes, remove its folder."""
        self.closing.close()
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)


class Workspace:
    """What all runs of a campaign share: a project to copy, prepared registries, and how long commands take."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="gpufleet-faults-"))
        self.template = self.folder / "template"
        self.durations: dict[str, float] = {}
        self.shared: dict[str, Any] = {}
        self.closing = contextlib.ExitStack()
        self._number = 0
        make_project(self.template)

    def environment(self) -> dict[str, str]:
        """Return an environment that knows this Python and nothing of the person who runs the campaign."""
        scripts = str(Path(sys.executable).parent)
        cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        inherited = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
        return inherited | {
            "PATH": os.pathsep.join([scripts, os.environ["PATH"]]),
            "VIRTUAL_ENV": str(Path(scripts).parent),
            "XDG_CACHE_HOME": cache,
        }

    def open(self, kind: str, seed: int) -> Run:
        """Make the place of one run."""
        self._number += 1
        folder = self.folder / f"{kind}-{seed}-{os.getpid()}-{self._number}"
        return Run(self, kind, seed, folder, random.Random(f"{kind}:{seed}"))

    def cached(self, name: str, make: Callable[[], Any]) -> Any:
        """Return an object that is created once per campaign."""
        if name not in self.shared:
            self.shared[name] = make()
        return self.shared[name]

    def seconds(self, name: str, command: Callable[[], Any]) -> float:
        """Return how long a command takes undisturbed, measured once."""
        if name not in self.durations:
            begun = time.monotonic()
            command()
            self.durations[name] = time.monotonic() - begun
        return self.durations[name]

    def close(self) -> None:
        self.closing.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def make_project(target: Path) -> None:
    """Copy what makes a gpufleet project, with a play of the campaign's own."""
    for part in PROJECT_PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, target / part, ignore=shutil.ignore_patterns("__pycache__", ".ansible"))
        else:
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target / part)
    (target / ".venv").symlink_to(Path(sys.executable).parents[1])
    for name in ("faults.yml", "recorded_agent.py"):
        shutil.copy(Path(__file__).with_name("data") / name, target / "playbooks" / name)


def signature(path: Path) -> tuple[tuple[str, int, int], ...]:
    """Return a signature that changes with a file or a folder's content."""
    paths = sorted(path.rglob("*")) if path.is_dir() else [path]
    entries = []
    for file in paths:
        with contextlib.suppress(OSError):
            stat = file.stat()
            entries.append((str(file), stat.st_size, stat.st_mtime_ns))
    return tuple(entries)


def leftovers(run: Run) -> Iterator[str]:
    """Name what a run left outside its results: processes, temporary files, mounts, half-written files."""
    processes = {pid: text for pid, text in run.processes().items() if "[mux]" not in text}
    for pid, text in processes.items():
        yield f"process {pid}: {text[:120]}"
    for path in sorted(run.tmp.iterdir()):
        yield f"temporary {path.name}"
    for line in Path("/proc/mounts").read_text().splitlines():
        if str(run.folder) in line and line.split()[1] not in run.workspace.shared.get("mounts", ()):
            yield f"mount {line.split()[1]}"
    for path in run.home.rglob("*") if run.home.is_dir() else ():
        # A killed playbook or ansible-runner leaves its last event unfinished; no reader takes it for one.
        if path.parent.name == "job_events":
            continue
        if path.name.endswith((".new", ".part", ".tmp")) or path.name.startswith(".building"):
            yield f"half-written {path.relative_to(run.home)}"
    for path in Path("/dev/shm").glob("gpufleet-*"):
        if path.is_file() and run.mark in _text(path):
            yield f"in memory {path}"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
