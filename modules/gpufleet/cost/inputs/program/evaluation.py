"""Run the project's Pulumi program without an engine, and return the resources that it declares.

The program runs in a child process under Pulumi's own mocks: no engine, no provider, no network, no
credentials. For a comparison one child imports the provider SDKs once, because those imports are most of the
time, and forks for each side. Each fork is confined before it reads or runs anything of its project
(``allowlist``, ``sandbox``): a pull request is somebody else's code. The child imports nothing of this
package: a program from another commit brings its own.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from gpufleet import engine
from gpufleet.boundary import decode_json_lines, printable
from gpufleet.cost.inputs.program import allowlist
from gpufleet.cost.inputs.program.gitref import unpack
from gpufleet.cost.inputs.program.stream import KIB, MIB, Stream, read_streams
from gpufleet.cost.inputs.stack_change import billable
from gpufleet.engine import Resource
from gpufleet.errors import EnvironmentFault
from gpufleet.scratch import scratch_folder

TIME_LIMIT_S = 120.0
STOP_LIMIT_S = 10.0
GO = "go"
OUTPUT_BYTES, OUTPUT_KEPT_BYTES, REPORT_BYTES = 64 * MIB, 64 * KIB, MIB
RESULT_BYTES = 32 * MIB

Run = Callable[[], list[tuple[Resource, ...]]]
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Program:
    """One evaluation: the project ``root`` to run in, and how to name it in an error ("" is the tree itself).

    A ``trusted`` program gets the environment, the network and the files of the person who evaluates it.
    """

    root: Path
    stack: str
    config_file: Path | None = None
    side: str = ""
    trusted: bool = False


def evaluate(
    root: Path,
    stack: str,
    ref: str | None = None,
    config_file: Path | None = None,
    limit_s: float = TIME_LIMIT_S,
    *,
    trusted: bool = False,
) -> tuple[Resource, ...]:
    """Return the resources that ``stack`` declares in the working tree, or at a git ref."""
    if ref is None:
        with evaluating([Program(root, stack, config_file, trusted=trusted)], limit_s) as run:
            return run()[0]
    with scratch_folder("base") as folder:
        unpack(root, ref, folder)
        program = Program(folder, stack, config_file, side=f"at {ref}", trusted=trusted)
        with evaluating([program], limit_s) as run:
            return run()[0]


@contextmanager
def evaluating_both(
    root: Path,
    stack: str,
    base: str,
    config_file: Path | None = None,
    limit_s: float = TIME_LIMIT_S,
    *,
    trusted: bool = False,
) -> Iterator[Run]:
    """Evaluate a stack at ``base`` and in the working tree, which ``config_file`` may replace there."""
    with scratch_folder("base") as folder:
        before = Program(folder, stack, side=f"at {base}", trusted=trusted)
        after = Program(root, stack, config_file, trusted=trusted)
        with evaluating([before, after], limit_s) as run:
            unpack(root, base, folder)  # while the child imports
            yield run


@contextmanager
def evaluating(programs: Sequence[Program], limit_s: float = TIME_LIMIT_S) -> Iterator[Run]:
    """Start the child, which imports while the block does other work; calling the yielded runs the programs.

    A stack that a side with a name does not declare yet has no resources there.
    """
    with ExitStack() as cleanup:
        folder = cleanup.enter_context(scratch_folder("evaluate")).resolve()
        evaluations = []
        for at, program in enumerate(programs):
            real = replace(program, root=program.root.resolve())
            evaluations.append(_Evaluation.open(real, folder / str(at)))
            cleanup.callback(evaluations[-1].close)
        child = _start(evaluations, folder, limit_s)
        cleanup.callback(_stop, child)

        def run() -> list[tuple[Resource, ...]]:
            printed = _run(child, evaluations, limit_s)
            return [each.resources(printed) for each in evaluations]

        yield run


@dataclass
class _Evaluation:
    """One program, the folder that it may write to, and the pipes for what it prints and what it registers."""

    program: Program
    folder: Path
    output: Stream
    result: Stream
    write_ends: tuple[int, ...]

    @classmethod
    def open(cls, program: Program, folder: Path) -> _Evaluation:
        for name in ("root", "home", "tmp"):
            (folder / name).mkdir(parents=True, mode=0o700)
        output, output_end = os.pipe()
        result, result_end = os.pipe()
        return cls(
            program,
            folder,
            Stream(output, "what it prints", OUTPUT_BYTES, OUTPUT_KEPT_BYTES),
            Stream(result, "what it registers", RESULT_BYTES, RESULT_BYTES),
            (output_end, result_end),
        )

    def job(self, python: Path | None, limit_s: float) -> dict[str, Any]:
        """Return what ``child.py`` is to do."""
        program = self.program
        config_file = program.config_file.resolve() if program.config_file else None
        output, result = self.write_ends
        return {
            "root": str(program.root),
            "stack": program.stack,
            "config_file": str(config_file) if config_file else None,
            "may_be_absent": bool(program.side),
            "python": str(python) if python else None,
            "output": output,
            "result": result,
            "bounds": allowlist.bounds(
                program.root, config_file, python, self.folder, limit_s, trusted=program.trusted
            ),
        }

    def close_write_ends(self) -> None:
        for descriptor in self.write_ends:
            os.close(descriptor)
        self.write_ends = ()

    def close(self) -> None:
        self.close_write_ends()
        os.close(self.output.descriptor)
        os.close(self.result.descriptor)

    def resources(self, printed: str) -> tuple[Resource, ...]:
        """Return what the program registered; ``printed`` is what its parent printed, where it has no answer."""
        from gpufleet.cost.inputs.program.registration import (
            decode_answer,
            program_error,
        )  # pydantic: while the child imports

        at = f" {self.program.side}" if self.program.side else ""
        if not self.result.content:
            lines = f"{printed}\n{self.output.text()}".strip().splitlines() or ["it printed nothing"]
            raise EnvironmentFault(f"the Pulumi program ended early{at}: {printable(lines[-1])}")
        answer = decode_answer(bytes(self.result.content), f"what the Pulumi program registers{at}")
        if answer.error is not None:
            raise program_error(answer.error, f"{self.program.root}{os.sep}", self.program.side)
        records = [each.model_dump() for each in answer.resources]
        resources = engine.parse_state({"deployment": {"resources": records}})
        return tuple(resource for resource in resources if billable(resource))


def _start(evaluations: Sequence[_Evaluation], folder: Path, limit_s: float) -> subprocess.Popen[bytes]:
    """Start the child and give it its jobs; it waits for the word to run them."""
    last = evaluations[-1].program
    python = allowlist.project_python(last.root)
    clouds = {
        cloud
        for each in evaluations
        for cloud in allowlist.clouds(each.program.root, each.program.stack, each.program.config_file)
    }
    jobs = [each.job(python, limit_s) for each in evaluations]
    with as_file(files("gpufleet.cost.inputs.program") / "child.py") as script:
        child = subprocess.Popen(
            [sys.executable, str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ if last.trusted else allowlist.environment(os.environ, folder),
            pass_fds=[descriptor for each in evaluations for descriptor in each.write_ends],
            start_new_session=True,  # so that an interrupt reaches us alone, and we stop it
        )
    for each in evaluations:
        each.close_write_ends()
    order = {"clouds": None if python else sorted(clouds), "jobs": jobs}
    _tell(child, json.dumps(order))
    return child


def _tell(child: subprocess.Popen[bytes], line: str) -> None:
    if child.stdin:
        with suppress(BrokenPipeError):  # a child that could not start says why in what it printed
            child.stdin.write(f"{line}\n".encode())
            child.stdin.flush()


def _run(child: subprocess.Popen[bytes], evaluations: Sequence[_Evaluation], limit_s: float) -> str:
    """Let the child run its programs, and return what it printed itself."""
    if child.stdout is None or child.stderr is None:
        return ""
    _tell(child, GO)
    reports = Stream(child.stdout.fileno(), "its report", REPORT_BYTES, REPORT_BYTES)
    printed = Stream(child.stderr.fileno(), "what it prints", OUTPUT_BYTES, OUTPUT_KEPT_BYTES)
    pipes = [stream for each in evaluations for stream in (each.output, each.result)]
    read_streams(reports, [printed, *pipes], limit_s)
    _warn(reports)
    return printed.text()


def _warn(reports: Stream) -> None:
    """Say in one line what could not be confined on this machine."""
    lines = [value for _, value in decode_json_lines(reports.text(), "the sandbox")]
    missing = list(dict.fromkeys(name for line in lines if isinstance(line, list) for name in line))
    if missing:
        _log.warning(
            "warning: this machine cannot keep the Pulumi program from %s; docs/cost.md says what is missing",
            " and ".join((", ".join(missing[:-1]), missing[-1]) if len(missing) > 1 else missing),
        )


def _stop(child: subprocess.Popen[bytes]) -> None:
    """Stop the child and all that its programs started: the end of its standard input tells the supervisors."""
    if child.stdin:
        with suppress(BrokenPipeError):
            child.stdin.close()
    try:
        child.wait(STOP_LIMIT_S)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    for pipe in (child.stdout, child.stderr):
        if pipe:
            pipe.close()
