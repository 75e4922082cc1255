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
from dataclasses import dataclass, replace
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpufleet import engine
from gpufleet.boundary import decode_json_lines, make_printable
from gpufleet.cost.inputs.program import allowlist
from gpufleet.cost.inputs.program.cache_key import Installation
from gpufleet.cost.inputs.program.gitref import find_git_tree, read_git_archive, unpack_git_archive
from gpufleet.cost.inputs.program.graph_cache import KeptGraph, load_kept_graph
from gpufleet.cost.inputs.program.sandbox import PROCESS_COUNT
from gpufleet.cost.inputs.program.stack_program import StackProgram
from gpufleet.cost.inputs.program.stream import KIB, MIB, BoundedPipeReader, read_pipes_with_time_limit
from gpufleet.cost.inputs.stack_change import is_billable
from gpufleet.engine import StateResource
from gpufleet.errors import EnvironmentFault, InputError
from gpufleet.scratch import create_scratch_folder, find_folder_in_memory

if TYPE_CHECKING:
    from gpufleet.cost.inputs.program.registration import ProgramOutput

TIME_LIMIT_S = 120.0
STOP_LIMIT_S = 10.0
GO = "go"
OUTPUT_BYTES, OUTPUT_TAIL_BYTES, REPORT_BYTES = 64 * MIB, 64 * KIB, MIB
RESULT_BYTES = 32 * MIB

Run = Callable[[], list[tuple[StateResource, ...]]]
_log = logging.getLogger(__name__)


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
    program = StackProgram(root, stack, config_file, trusted=trusted)
    if ref is not None:
        program = replace(program, label=f"at {ref}", tree=find_git_tree(root, ref))
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
    tree = find_git_tree(root, base)
    before = StackProgram(root, stack, label=f"at {base}", trusted=trusted, tree=tree)
    after = StackProgram(root, stack, config_file, trusted=trusted, variables=variables or {})
    with start_program_evaluation([before, after], limit_s) as run:
        yield run


@contextmanager
def start_program_evaluation(
    programs: Sequence[StackProgram], limit_s: float = TIME_LIMIT_S
) -> Iterator[Run]:
    """Start the child, which imports SDKs while the block runs; call the yielded function to run the programs.

    A labelled program may have no such stack yet: it then has no resources. A program whose graph is kept is not run.
    """
    last = programs[-1]
    setting = _Setting(
        allowlist.find_project_python(last.root),
        {**os.environ, **last.variables},
        limit_s,
        trusted=last.trusted,
    )
    installation = Installation(setting.python, setting.variables)
    kept_graphs = [load_kept_graph(program, installation) for program in programs]
    missing = [graph for graph in kept_graphs if graph.content is None]
    with ExitStack() as cleanup:
        run_missing = cleanup.enter_context(_start_evaluations(missing, setting)) if missing else list

        def run_programs() -> list[tuple[StateResource, ...]]:
            evaluated = iter(run_missing())
            return [
                next(evaluated) if graph.content is None else _decode_kept_graph(graph, setting)
                for graph in kept_graphs
            ]

        yield run_programs


@dataclass(frozen=True)
class _Setting:
    """What the programs of one child share: the project's own Python, variables, and the limit."""

    python: Path | None
    variables: Mapping[str, str]
    limit_s: float
    trusted: bool


def _decode_kept_graph(graph: KeptGraph, setting: _Setting) -> tuple[StateResource, ...]:
    """Return the resources of a kept graph; evaluate its program if the graph is invalid."""
    from gpufleet.cost.inputs.program.registration import decode_program_output

    try:
        return _select_billable(decode_program_output(graph.content or b"", "a kept graph"))
    except InputError:
        with _start_evaluations([graph], setting) as run:
            return run()[0]


@contextmanager
def _start_evaluations(graphs: Sequence[KeptGraph], setting: _Setting) -> Iterator[Run]:
    """Start the child for programs whose graph is not kept, and keep what it returns."""
    with ExitStack() as cleanup:
        folder = cleanup.enter_context(create_scratch_folder("evaluate")).resolve()
        evaluations, archives = [], []
        for index, graph in enumerate(graphs):
            root = graph.program.root
            if graph.program.tree is not None:
                archive = read_git_archive(root, graph.program.tree)
                root = cleanup.enter_context(_create_base_folder(archive))
                archives.append((archive, root))
            resolved = replace(graph.program, root=root.resolve())
            evaluations.append(_Evaluation.open_folder_and_pipes(resolved, folder / str(index)))
            cleanup.callback(evaluations[-1].close_pipes)
        child = _start_child(evaluations, folder, setting)
        cleanup.callback(_stop_child, child)
        for archive, root in archives:
            unpack_git_archive(archive, root)  # while the child imports

        def run_programs() -> list[tuple[StateResource, ...]]:
            printed, is_confined = _run_programs(child, evaluations, setting.limit_s)
            outputs = [each.decode_program_output(printed) for each in evaluations]
            installation = Installation(setting.python, setting.variables)  # as it is after the evaluation
            for graph, output in zip(graphs, outputs, strict=True):
                if is_confined:
                    graph.store_records(output.records, installation)
            return [_select_billable(output) for output in outputs]

        yield run_programs


def _create_base_folder(archive: bytes) -> AbstractContextManager[Path]:
    """Create the folder for another commit, in memory if it fits: a disk takes a millisecond for each file."""
    return create_scratch_folder("base", find_folder_in_memory(2 * len(archive)))


def _select_billable(output: ProgramOutput) -> tuple[StateResource, ...]:
    """Return the registered resources that the stack pays for."""
    resources = engine.parse_stack_state({"deployment": {"resources": output.records}})
    return tuple(resource for resource in resources if is_billable(resource))


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
        config_file = Path(os.path.realpath(program.config_file)) if program.config_file else None
        output, result = self.write_ends
        return {
            "root": str(program.root),
            "stack": program.stack,
            "config_file": str(config_file) if config_file else None,
            "may_be_absent": bool(program.label),
            "python": str(python) if python else None,
            "is_lazy": not program.trusted,  # a lazy program that fails is run twice
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

    def decode_program_output(self, parent_output: str) -> ProgramOutput:
        """Return what the program registered; ``parent_output`` explains a missing result."""
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
        return program_output


def _start_child(
    evaluations: Sequence[_Evaluation], folder: Path, setting: _Setting
) -> subprocess.Popen[bytes]:
    """Start the child and send it its jobs; it runs them after the line GO."""
    variables = setting.variables
    clouds = {
        cloud
        for each in evaluations
        for cloud in allowlist.guess_clouds(each.program.root, each.program.stack, each.program.config_file)
    }
    jobs = [each.build_child_job(setting.python, setting.limit_s) for each in evaluations]
    with as_file(files("gpufleet.cost.inputs.program") / "child.py") as script:
        child = subprocess.Popen(
            [sys.executable, str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=variables if setting.trusted else allowlist.build_allowed_environment(variables, folder),
            pass_fds=[descriptor for each in evaluations for descriptor in each.write_ends],
            start_new_session=True,  # so that an interrupt reaches us alone, and we stop it
        )
    for each in evaluations:
        each.close_pipe_write_ends()
    order = {"clouds": None if setting.python else sorted(clouds), "jobs": jobs}
    _send_line(child, json.dumps(order))
    return child


def _send_line(child: subprocess.Popen[bytes], line: str) -> None:
    if child.stdin:
        with suppress(BrokenPipeError):  # a child that could not start has printed why
            child.stdin.write(f"{line}\n".encode())
            child.stdin.flush()


def _run_programs(
    child: subprocess.Popen[bytes], evaluations: Sequence[_Evaluation], limit_s: float
) -> tuple[str, bool]:
    """Run the programs in the child; return the child's own output, and whether all of them were confined."""
    if child.stdout is None or child.stderr is None:
        return "", False
    _send_line(child, GO)
    reports = BoundedPipeReader(child.stdout.fileno(), "its report", REPORT_BYTES, REPORT_BYTES)
    printed = BoundedPipeReader(child.stderr.fileno(), "its output", OUTPUT_BYTES, OUTPUT_TAIL_BYTES)
    pipes = [stream for each in evaluations for stream in (each.output, each.result)]
    read_pipes_with_time_limit(reports, [printed, *pipes], limit_s)
    gaps = [value for _, value in decode_json_lines(reports.decode_stored_text(), "the sandbox")]
    missing = list(dict.fromkeys(name for line in gaps if isinstance(line, list) for name in line))
    _warn_unconfined(missing)
    return printed.decode_stored_text(), len(gaps) == len(evaluations) and set(missing) <= {PROCESS_COUNT}


def _warn_unconfined(missing: Sequence[str]) -> None:
    """Log one warning about what this machine cannot confine."""
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
