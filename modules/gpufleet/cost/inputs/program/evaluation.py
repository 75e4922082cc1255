"""Run a Pulumi program without an engine, and return the resources that it declares.

The program runs in a child process under Pulumi's mocks: no engine, provider, network or credentials. A comparison
needs one child: it imports the provider SDKs once, because these imports take most of the time, and forks for each
program. Each fork is confined (``allowlist``, ``sandbox``) before it reads its project, because a pull request is
untrusted code. The child imports nothing of this package: a program from another commit brings its own.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from gpufleet import engine
from gpufleet.boundary import decode_json_lines, make_printable
from gpufleet.cost.inputs.program import allowlist
from gpufleet.cost.inputs.program.gitref import read_git_archive, unpack_git_archive
from gpufleet.cost.inputs.program.stream import KIB, MIB, BoundedPipeReader, read_pipes_with_time_limit
from gpufleet.cost.inputs.stack_change import is_billable
from gpufleet.engine import StateResource
from gpufleet.errors import EnvironmentFault
from gpufleet.scratch import create_scratch_folder, find_folder_in_memory

TIME_LIMIT_S = 120.0
STOP_LIMIT_S = 10.0
GO = "go"
OUTPUT_BYTES, OUTPUT_TAIL_BYTES, REPORT_BYTES = 64 * MIB, 64 * KIB, MIB
RESULT_BYTES = 32 * MIB

Run = Callable[[], list[tuple[StateResource, ...]]]
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StackProgram:
    """A program: the project ``root`` to run in, and its ``label`` in errors ("" is the working tree).

    A ``trusted`` program gets the user's environment, network and files. ``variables`` are set in addition.
    """

    root: Path
    stack: str
    config_file: Path | None = None
    label: str = ""
    trusted: bool = False
    variables: Mapping[str, str] = field(default_factory=dict)


def evaluate_program(
    root: Path,
    stack: str,
    ref: str | None = None,
    config_file: Path | None = None,
    limit_s: float = TIME_LIMIT_S,
    *,
    trusted: bool = False,
) -> tuple[StateResource, ...]:
    """Return the resources that ``stack`` declares in the working tree, or at a git ref."""
    if ref is None:
        with start_program_evaluation(
            [StackProgram(root, stack, config_file, trusted=trusted)], limit_s
        ) as run:
            return run()[0]
    archive = read_git_archive(root, ref)
    with _create_base_folder(archive) as folder:
        unpack_git_archive(archive, folder)
        program = StackProgram(folder, stack, config_file, label=f"at {ref}", trusted=trusted)
        with start_program_evaluation([program], limit_s) as run:
            return run()[0]


@contextmanager
def start_git_ref_comparison(
    root: Path,
    stack: str,
    base: str,
    config_file: Path | None = None,
    limit_s: float = TIME_LIMIT_S,
    *,
    trusted: bool = False,
    variables: Mapping[str, str] | None = None,
) -> Iterator[Run]:
    """Evaluate a stack at ``base`` and in the working tree; ``config_file`` applies to the working tree."""
    archive = read_git_archive(root, base)
    with _create_base_folder(archive) as folder:
        before = StackProgram(folder, stack, label=f"at {base}", trusted=trusted)
        after = StackProgram(root, stack, config_file, trusted=trusted, variables=variables or {})
        with start_program_evaluation([before, after], limit_s) as run:
            unpack_git_archive(archive, folder)  # while the child imports
            yield run


def _create_base_folder(archive: bytes) -> AbstractContextManager[Path]:
    """Create the folder for another commit, in memory if it fits: a disk takes a millisecond for each file."""
    return create_scratch_folder("base", find_folder_in_memory(2 * len(archive)))


@contextmanager
def start_program_evaluation(
    programs: Sequence[StackProgram], limit_s: float = TIME_LIMIT_S
) -> Iterator[Run]:
    """Start the child, which imports SDKs while the block runs; call the yielded function to run the programs.

    A labelled program may have no such stack yet: it then has no resources.
    """
    with ExitStack() as cleanup:
        folder = cleanup.enter_context(create_scratch_folder("evaluate")).resolve()
        evaluations = []
        for index, program in enumerate(programs):
            resolved = replace(program, root=program.root.resolve())
            evaluations.append(_Evaluation.open_folder_and_pipes(resolved, folder / str(index)))
            cleanup.callback(evaluations[-1].close_pipes)
        child = _start_child(evaluations, folder, limit_s)
        cleanup.callback(_stop_child, child)

        def run_programs() -> list[tuple[StateResource, ...]]:
            printed = _run_programs(child, evaluations, limit_s)
            return [each.decode_registered_resources(printed) for each in evaluations]

        yield run_programs


@dataclass
class _Evaluation:
    """One program, its writable folder, and the pipes for its output and its result."""

    program: StackProgram
    folder: Path
    output: BoundedPipeReader
    result: BoundedPipeReader
    write_ends: tuple[int, ...]

    @classmethod
    def open_folder_and_pipes(cls, program: StackProgram, folder: Path) -> _Evaluation:
        for name in ("root", "home", "tmp"):
            (folder / name).mkdir(parents=True, mode=0o700)
        output, output_end = os.pipe()
        result, result_end = os.pipe()
        return cls(
            program,
            folder,
            BoundedPipeReader(output, "its output", OUTPUT_BYTES, OUTPUT_TAIL_BYTES),
            BoundedPipeReader(result, "its list of resources", RESULT_BYTES, RESULT_BYTES),
            (output_end, result_end),
        )

    def build_child_job(self, python: Path | None, limit_s: float) -> dict[str, Any]:
        """Return the job for ``child.py``."""
        program = self.program
        config_file = program.config_file.resolve() if program.config_file else None
        output, result = self.write_ends
        return {
            "root": str(program.root),
            "stack": program.stack,
            "config_file": str(config_file) if config_file else None,
            "may_be_absent": bool(program.label),
            "python": str(python) if python else None,
            "output": output,
            "result": result,
            "bounds": allowlist.build_sandbox_bounds(
                program.root, config_file, python, self.folder, limit_s, trusted=program.trusted
            ),
        }

    def close_pipe_write_ends(self) -> None:
        for descriptor in self.write_ends:
            os.close(descriptor)
        self.write_ends = ()

    def close_pipes(self) -> None:
        self.close_pipe_write_ends()
        os.close(self.output.descriptor)
        os.close(self.result.descriptor)

    def decode_registered_resources(self, parent_output: str) -> tuple[StateResource, ...]:
        """Return the registered resources; ``parent_output`` explains a missing result."""
        from gpufleet.cost.inputs.program.registration import (
            decode_program_output,
            make_input_error,
        )  # pydantic: while the child imports

        location = f" {self.program.label}" if self.program.label else ""
        if not self.result.content:
            lines = f"{parent_output}\n{self.output.decode_stored_text()}".strip().splitlines() or [
                "it printed nothing"
            ]
            raise EnvironmentFault(f"the Pulumi program ended early{location}: {make_printable(lines[-1])}")
        program_output = decode_program_output(
            bytes(self.result.content), f"what the Pulumi program registers{location}"
        )
        if program_output.error is not None:
            raise make_input_error(program_output.error, f"{self.program.root}{os.sep}", self.program.label)
        records = [each.model_dump() for each in program_output.resources]
        resources = engine.parse_stack_state({"deployment": {"resources": records}})
        return tuple(resource for resource in resources if is_billable(resource))


def _start_child(evaluations: Sequence[_Evaluation], folder: Path, limit_s: float) -> subprocess.Popen[bytes]:
    """Start the child and send it its jobs; it runs them after the line GO."""
    last = evaluations[-1].program
    environment = {**os.environ, **last.variables}
    python = allowlist.find_project_python(last.root)
    clouds = {
        cloud
        for each in evaluations
        for cloud in allowlist.guess_clouds(each.program.root, each.program.stack, each.program.config_file)
    }
    jobs = [each.build_child_job(python, limit_s) for each in evaluations]
    with as_file(files("gpufleet.cost.inputs.program") / "child.py") as script:
        child = subprocess.Popen(
            [sys.executable, str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment if last.trusted else allowlist.build_allowed_environment(environment, folder),
            pass_fds=[descriptor for each in evaluations for descriptor in each.write_ends],
            start_new_session=True,  # so that an interrupt reaches us alone, and we stop it
        )
    for each in evaluations:
        each.close_pipe_write_ends()
    order = {"clouds": None if python else sorted(clouds), "jobs": jobs}
    _send_line(child, json.dumps(order))
    return child


def _send_line(child: subprocess.Popen[bytes], line: str) -> None:
    if child.stdin:
        with suppress(BrokenPipeError):  # a child that could not start has printed why
            child.stdin.write(f"{line}\n".encode())
            child.stdin.flush()


def _run_programs(child: subprocess.Popen[bytes], evaluations: Sequence[_Evaluation], limit_s: float) -> str:
    """Run the programs in the child, and return the child's own output."""
    if child.stdout is None or child.stderr is None:
        return ""
    _send_line(child, GO)
    reports = BoundedPipeReader(child.stdout.fileno(), "its report", REPORT_BYTES, REPORT_BYTES)
    printed = BoundedPipeReader(child.stderr.fileno(), "its output", OUTPUT_BYTES, OUTPUT_TAIL_BYTES)
    pipes = [stream for each in evaluations for stream in (each.output, each.result)]
    read_pipes_with_time_limit(reports, [printed, *pipes], limit_s)
    _warn_unconfined(reports)
    return printed.decode_stored_text()


def _warn_unconfined(reports: BoundedPipeReader) -> None:
    """Log one warning about what this machine cannot confine."""
    lines = [value for _, value in decode_json_lines(reports.decode_stored_text(), "the sandbox")]
    missing = list(dict.fromkeys(name for line in lines if isinstance(line, list) for name in line))
    if missing:
        _log.warning(
            "warning: this machine cannot isolate the Pulumi program from %s; see docs/cost.md",
            " and ".join((", ".join(missing[:-1]), missing[-1]) if len(missing) > 1 else missing),
        )


def _stop_child(child: subprocess.Popen[bytes]) -> None:
    """Stop the child and its descendants: the supervisors stop when its standard input closes."""
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
