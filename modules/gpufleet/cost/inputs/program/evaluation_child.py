"""The child process that evaluates programs: start it, give it its programs, read what they register, stop it."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpufleet.boundary import decode_json_lines, make_printable
from gpufleet.cost.inputs.program import allowlist
from gpufleet.cost.inputs.program.failure import CONFINED, PREVIEW
from gpufleet.cost.inputs.program.node_packages import PackageFolder
from gpufleet.cost.inputs.program.project_view import ProjectView, find_untracked_file
from gpufleet.cost.inputs.program.sandbox import PROCESS_COUNT
from gpufleet.cost.inputs.program.stack_program import StackProgram
from gpufleet.cost.inputs.program.stream import KIB, MIB, BoundedPipeReader, read_pipes_with_time_limit
from gpufleet.errors import EnvironmentFault, InputError
from gpufleet.scratch import create_scratch_folder

if TYPE_CHECKING:
    from gpufleet.cost.inputs.program.registration import ProgramOutput

STOP_LIMIT_S = 10.0
OUTPUT_BYTES, OUTPUT_TAIL_BYTES, REPORT_BYTES = 64 * MIB, 64 * KIB, MIB
RESULT_BYTES = 32 * MIB
GRACE_S = 5
UNCONFINED = (
    "the Pulumi program was not run: this machine cannot hide files, other processes and the network from it"
)
UNCONFINED_HINT = (
    "allow user namespaces (docs/cost.md); or give --allow-unconfined: the program can then read what this user can, "
    "such as keys, and the tokens in the environment of a CI job, and send it away"
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ChildSetting:
    """What the programs of one child share: the project's own Python, variables, and the limit."""

    python: Path | None
    variables: Mapping[str, str]
    limit_s: float
    trusted: bool


@dataclass
class ProgramEvaluation:
    """One program, its writable folder, and the pipes for its output and its result."""

    program: StackProgram
    folder: Path
    output: BoundedPipeReader
    result: BoundedPipeReader
    write_ends: tuple[int, int]
    checkout: Path | None = None
    view: ProjectView | None = None
    visible: Sequence[Path] = ()
    config_file: Path | None = None
    is_compared: bool = False
    moved: tuple[Path, Path] | None = None  # the repository, and where its other commit is
    packages: Sequence[PackageFolder] = ()
    tools: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def open_folder_and_pipes(cls, program: StackProgram, folder: Path) -> ProgramEvaluation:
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

    def build_child_job(self, setting: ChildSetting) -> dict[str, Any]:
        """Return the job for ``child.py``."""
        program, python = self.program, setting.python
        output, result = self.write_ends
        return {
            "root": str(program.root.resolve()),
            "stack": program.stack,
            "config_file": str(self.config_file) if self.config_file else None,
            "may_be_absent": bool(program.label),
            "moved": [str(path) for path in self.moved] if self.moved else None,
            "python": str(python) if python else None,
            "is_lazy": not program.trusted and not self.tools,  # a lazy program that fails is run twice
            "tools": dict(self.tools),
            "output": output,
            "result": result,
            "bounds": self.build_bounds(setting.limit_s),
        }

    def build_bounds(self, limit_s: float) -> dict[str, Any]:
        """Return the bounds for ``sandbox.start_sandboxed_call``."""
        view = self.view and {
            "folder": str(self.view.folder),
            "view": str(self.view.view),
            "parts": list(self.view.parts),
        }
        return {
            "trusted": self.program.trusted,
            "may_be_unconfined": self.program.may_be_unconfined,
            "folder": str(self.folder),
            "covered": str(self.checkout) if self.checkout and self.view else None,
            "visible": [str(path) for path in self.visible],
            "project": view,
            "mounted": [[str(each.source), str(each.target)] for each in self.packages],
            "cpu_s": int(limit_s) + GRACE_S,
        }

    def close_read_ends(self) -> None:
        os.close(self.output.descriptor)
        os.close(self.result.descriptor)

    def decode_program_output(self, child_output: str) -> ProgramOutput:
        """Return what the program registered; ``child_output`` explains a missing result."""
        from gpufleet.cost.inputs.program.registration import (
            decode_program_output,
            make_input_error,
            names_protection_option,
        )  # pydantic: while the child imports

        location = f" {self.program.label}" if self.program.label else ""
        if not self.result.content.strip():
            lines = f"{child_output}\n{self.output.decode_stored_text()}".strip().splitlines() or [
                "it printed nothing"
            ]
            last = lines[-1] if not names_protection_option(lines[-1]) else "its last line is not shown"
            if not self.result.content:  # not even what is written before the program runs
                raise EnvironmentFault(
                    f"the Pulumi program could not be started{location}: {make_printable(last)}"
                )
            problem = f"the Pulumi program ended early{location}: {make_printable(last)}"
            raise InputError(problem, remedy=PREVIEW if self.program.trusted else CONFINED)
        program_output = decode_program_output(
            bytes(self.result.content), f"what the Pulumi program registers{location}"
        )
        if program_output.error is not None:
            root = f"{self.program.root.resolve()}{os.sep}"
            text = f"{program_output.error.where} {program_output.error.problem}"
            untracked = find_untracked_file(self.program, text)
            raise make_input_error(program_output.error, root, self.program.label, untracked)
        return program_output


@dataclass
class EvaluationChild:
    """A child that imports the SDKs of some clouds, and then waits for the programs to run."""

    process: subprocess.Popen[bytes]
    evaluations: Sequence[ProgramEvaluation]
    setting: ChildSetting
    has_jobs: bool = False

    def run(self, evaluations: Sequence[ProgramEvaluation]) -> tuple[list[ProgramOutput], bool]:
        """Run programs; return what each registered, and whether all of them were confined."""
        if self.process.stdout is None or self.process.stderr is None:
            return [], False
        self.has_jobs = True
        _send_line(self.process, json.dumps([each.build_child_job(self.setting) for each in evaluations]))
        reports = BoundedPipeReader(self.process.stdout.fileno(), "its report", REPORT_BYTES, REPORT_BYTES)
        printed = BoundedPipeReader(
            self.process.stderr.fileno(), "its output", OUTPUT_BYTES, OUTPUT_TAIL_BYTES
        )
        pipes = [stream for each in evaluations for stream in (each.output, each.result)]
        read_pipes_with_time_limit(reports, [printed, *pipes], self.setting.limit_s)
        missing = _read_confinement(reports.decode_stored_text(), evaluations)
        outputs = [each.decode_program_output(printed.decode_stored_text()) for each in evaluations]
        is_confined = not any(each.program.trusted for each in evaluations) and missing <= {PROCESS_COUNT}
        return outputs, is_confined

    def stop(self) -> None:
        """Stop the child and its descendants: the supervisors stop when its standard input closes."""
        if not self.has_jobs:
            self.process.kill()  # it may import for half a second before it reads its input again
        if self.process.stdin:
            with suppress(BrokenPipeError):
                self.process.stdin.close()
        try:
            self.process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe:
                pipe.close()


@contextmanager
def start_child(programs: Sequence[StackProgram], setting: ChildSetting) -> Iterator[EvaluationChild]:
    """Start the child, with a folder and pipes for each program; it imports until ``run``, and ends with the block."""
    clouds = {
        cloud
        for each in programs
        for cloud in allowlist.guess_clouds(each.root, each.stack, each.config_file)
    }
    with ExitStack() as cleanup:
        folder = cleanup.enter_context(create_scratch_folder("evaluate")).resolve()
        evaluations = []
        for index, program in enumerate(programs):
            evaluations.append(ProgramEvaluation.open_folder_and_pipes(program, folder / str(index)))
            cleanup.callback(evaluations[-1].close_read_ends)
        write_ends = [descriptor for each in evaluations for descriptor in each.write_ends]
        variables = setting.variables
        try:
            with as_file(files("gpufleet.cost.inputs.program") / "child.py") as script:
                process = subprocess.Popen(
                    [sys.executable, str(script)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env=variables
                    if setting.trusted
                    else allowlist.build_allowed_environment(variables, folder),
                    pass_fds=write_ends,
                    start_new_session=True,  # so that an interrupt reaches us alone, and we stop it
                )
        finally:
            for descriptor in write_ends:
                os.close(descriptor)
        child = EvaluationChild(process, evaluations, setting)
        cleanup.callback(child.stop)
        is_lazy = not all(program.trusted for program in programs)
        _send_line(
            process,
            json.dumps({"clouds": None if setting.python else sorted(clouds), "is_lazy": is_lazy}),
        )
        yield child


def run_command(start: Sequence[str], job: Mapping[str, Any], limit_s: float) -> tuple[int, str]:
    """Run a command in the confinement of the job's ``bounds``; return its exit code and the end of its output."""
    output, output_end = os.pipe()
    result, result_end = os.pipe()
    printed = BoundedPipeReader(output, "its output", OUTPUT_BYTES, OUTPUT_TAIL_BYTES)
    code = BoundedPipeReader(result, "its exit code", KIB, KIB)
    process = subprocess.Popen(
        start,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=(output_end, result_end),
        start_new_session=True,
    )
    os.close(output_end)
    os.close(result_end)
    child = EvaluationChild(process, (), ChildSetting(None, {}, limit_s, trusted=False), has_jobs=True)
    try:
        _send_line(process, json.dumps({"clouds": None, "is_lazy": False}))
        _send_line(process, json.dumps([{**job, "output": output_end, "result": result_end}]))
        if process.stdout is None:
            return 1, ""
        reports = BoundedPipeReader(process.stdout.fileno(), "its report", REPORT_BYTES, REPORT_BYTES)
        read_pipes_with_time_limit(reports, [printed, code], limit_s)
        _read_confinement(reports.decode_stored_text(), ())
    finally:
        child.stop()
        os.close(output)
        os.close(result)
    text = code.decode_stored_text().strip()
    return int(text) if text.isdecimal() and text.isascii() else 1, printed.decode_stored_text()


def _send_line(process: subprocess.Popen[bytes], line: str) -> None:
    if process.stdin:
        with suppress(BrokenPipeError):  # a child that could not start has printed why
            process.stdin.write(f"{line}\n".encode())
            process.stdin.flush()


def _read_confinement(text: str, evaluations: Sequence[ProgramEvaluation]) -> set[str]:
    """Return what is not confined, and log it; raise EnvironmentFault for a program that was not run.

    Every supervisor writes one line before anything of its program runs.
    """
    reports = [value for _, value in decode_json_lines(text, "the sandbox") if isinstance(value, dict)]
    for report in reports:
        if "refused" in report:
            raise EnvironmentFault(
                f"{UNCONFINED} ({make_printable(report['refused'])})", hint=UNCONFINED_HINT
            )
        if "failed" in report:
            raise EnvironmentFault(
                f"the Pulumi program was not run: its confinement failed: {make_printable(report['failed'])}",
                hint="docs/cost.md says what confinement needs",
            )
    expected = sum(not each.program.trusted for each in evaluations)
    if len(reports) < expected and any(each.result.content for each in evaluations):
        raise EnvironmentFault("the Pulumi program ran without a report of its confinement")
    missing = list(dict.fromkeys(name for report in reports for name in report.get("missing", [])))
    _warn_unconfined([make_printable(name) for name in missing])
    return set(missing)


def _warn_unconfined(missing: Sequence[str]) -> None:
    """Log one warning about what this machine cannot confine."""
    if missing:
        _log.warning(
            "warning: this machine cannot isolate the Pulumi program from %s; see docs/cost.md",
            " and ".join((", ".join(missing[:-1]), missing[-1]) if len(missing) > 1 else missing),
        )
