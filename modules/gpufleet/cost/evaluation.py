"""Run the project's Pulumi program without an engine, and return the resources that it declares.

The program runs in a child process under Pulumi's own mocks: no engine, no provider, no network, no
credentials. For a comparison both sides run in that one child, forked after it has imported the provider
SDKs once, because those imports are most of the time. The child imports nothing of this package: a program
from another commit brings its own.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from gpufleet import engine
from gpufleet.cost.gitref import unpack
from gpufleet.cost.sides import billable
from gpufleet.engine import Resource
from gpufleet.errors import EnvironmentFault, InputError

TIME_LIMIT_S = 120.0
GO = "go"

Run = Callable[[], list[tuple[Resource, ...]]]


@dataclass(frozen=True)
class Program:
    """One evaluation: the project ``root`` to run in, and how to name it in an error ("" is the tree itself)."""

    root: Path
    stack: str
    config_file: Path | None = None
    side: str = ""


def evaluate(
    root: Path,
    stack: str,
    ref: str | None = None,
    config_file: Path | None = None,
    limit_s: float = TIME_LIMIT_S,
) -> tuple[Resource, ...]:
    """Return the resources that ``stack`` declares in the working tree, or at a git ref."""
    if ref is None:
        with evaluating([Program(root, stack, config_file)], limit_s) as run:
            return run()[0]
    with tempfile.TemporaryDirectory(prefix="gpufleet-base-") as folder:
        unpack(root, ref, Path(folder))
        with evaluating([Program(Path(folder), stack, config_file, side=f"at {ref}")], limit_s) as run:
            return run()[0]


@contextmanager
def evaluating_both(
    root: Path, stack: str, base: str, config_file: Path | None = None, limit_s: float = TIME_LIMIT_S
) -> Iterator[Run]:
    """Evaluate a stack at ``base`` and in the working tree, which ``config_file`` may replace there."""
    with tempfile.TemporaryDirectory(prefix="gpufleet-base-") as folder:
        before = Program(Path(folder), stack, side=f"at {base}")
        with evaluating([before, Program(root, stack, config_file)], limit_s) as run:
            unpack(root, base, Path(folder))  # while the child imports
            yield run


@contextmanager
def evaluating(programs: Sequence[Program], limit_s: float = TIME_LIMIT_S) -> Iterator[Run]:
    """Start the child, which imports while the block does other work; calling the yielded runs the programs.

    A stack that a side with a name does not declare yet has no resources there.
    """
    with tempfile.TemporaryDirectory(prefix="gpufleet-evaluate-") as folder:
        results = [Path(folder) / f"{at}.json" for at in range(len(programs))]
        jobs = [_job(program, result) for program, result in zip(programs, results, strict=True)]
        child = _start(jobs, _python(programs[-1].root))

        def run() -> list[tuple[Resource, ...]]:
            said = _finish(child, limit_s)
            return [_read(program, result, said) for program, result in zip(programs, results, strict=True)]

        try:
            yield run
        finally:
            _end(child)


def _job(program: Program, result: Path) -> dict[str, Any]:
    return {
        "root": str(program.root),
        "stack": program.stack,
        "config_file": str(program.config_file.resolve()) if program.config_file else None,
        "may_be_absent": bool(program.side),
        "result": str(result),
    }


def _python(root: Path) -> str:
    """Return the Python of the virtual environment that a project names, where it is there; else this one."""
    settings = root / "Pulumi.yaml"
    text = settings.read_text(encoding="utf-8", errors="replace") if settings.is_file() else ""
    named = re.search(r"^\s*virtualenv:\s*[\"']?([^\"'\s#]+)", text, re.MULTILINE)
    python = root / named.group(1) / "bin" / "python" if named else None
    return str(python) if python and python.exists() else sys.executable


def _start(jobs: list[dict[str, Any]], python: str) -> subprocess.Popen[str]:
    """Start the child and tell it its jobs; it waits for the word to run them."""
    with as_file(files("gpufleet.cost") / "program.py") as script:
        child = subprocess.Popen(
            [python, str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # so that ending it ends its forks too
        )
    if child.stdin:
        with suppress(BrokenPipeError):  # a child that could not start says why in what it printed
            child.stdin.write(json.dumps(jobs) + "\n")
            child.stdin.flush()
    return child


def _finish(child: subprocess.Popen[str], limit_s: float) -> str:
    """Let the child run its programs, and return what they printed."""
    try:
        return child.communicate(GO, timeout=limit_s)[0]
    except BrokenPipeError:  # it ended before it heard its jobs; what it printed says why
        return child.stdout.read() if child.stdout else ""
    except subprocess.TimeoutExpired:
        raise EnvironmentFault(
            f"the Pulumi program did not end within {limit_s:g} s", hint="it may wait for input or a network"
        ) from None


def _end(child: subprocess.Popen[str]) -> None:
    """End the child's whole session, which is ours alone, whatever interrupted the wait."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _read(program: Program, result: Path, said: str) -> tuple[Resource, ...]:
    try:
        answer = json.loads(result.read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError):
        last = said.strip().splitlines()[-1:] or ["it said nothing"]
        raise EnvironmentFault(f"the Pulumi program ended early{_at(program)}: {last[0]}") from None
    if "error" in answer:
        raise _error(program, answer["error"])
    resources = engine.parse_state({"deployment": {"resources": answer["resources"]}})
    return tuple(resource for resource in resources if billable(resource))


def _error(program: Program, told: dict[str, str]) -> InputError:
    """Return the program's error as one line that says on which side it happened."""
    place = told["where"].replace(f"{program.root}{os.sep}", "")
    where = f"{program.side}: {place}".rstrip(": ") if program.side else place
    problem = told["problem"].replace(f"{program.root}{os.sep}", "")
    return InputError(problem, where=where, key=told["key"], remedy=told["remedy"])


def _at(program: Program) -> str:
    return f" {program.side}" if program.side else ""
