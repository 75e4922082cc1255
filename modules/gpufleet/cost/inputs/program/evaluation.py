"""Run a Pulumi program without an engine, and return the resources that it declares.

The program runs in a child process under Pulumi's mocks: no engine, provider, network or credentials. A comparison
needs one child (``evaluation_child``): it imports the provider SDKs once, because these imports take most of the time,
and forks for each program. Each fork is confined (``allowlist``, ``sandbox``) before it reads its project, because a
pull request is untrusted code. The child imports nothing of this package: a program from another commit brings its own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpufleet import engine
from gpufleet.cost.inputs.program import allowlist
from gpufleet.cost.inputs.program.cache_key import Installation
from gpufleet.cost.inputs.program.evaluation_child import ChildSetting, ProgramEvaluation, start_child
from gpufleet.cost.inputs.program.gitref import find_git_tree, list_git_files, read_git_files
from gpufleet.cost.inputs.program.go_build import RUNTIME, provide_go_binary
from gpufleet.cost.inputs.program.graph_cache import KeptGraph, load_kept_graph
from gpufleet.cost.inputs.program.node_packages import (
    find_node,
    find_package_folders,
    is_node_program,
    place_packages,
)
from gpufleet.cost.inputs.program.program_runtime import read_program_runtime
from gpufleet.cost.inputs.program.project_view import (
    ProjectView,
    copy_files,
    enter_folder,
    explain_full_disk,
    is_inside,
    measure_files,
    select_additions,
    select_files,
    write_git_files,
)
from gpufleet.cost.inputs.program.sandbox import can_enter_namespaces
from gpufleet.cost.inputs.program.stack_program import StackProgram
from gpufleet.cost.inputs.program.virtual_environment import choose_python
from gpufleet.cost.inputs.remote_component import expand_remote_components
from gpufleet.cost.inputs.stack_change import is_billable
from gpufleet.engine import StateResource
from gpufleet.errors import InputError
from gpufleet.scratch import create_scratch_folder, find_folder_in_memory

if TYPE_CHECKING:
    from gpufleet.cost.inputs.program.registration import ProgramOutput

TIME_LIMIT_S = 120.0
BASE_CONFIG = "Pulumi.gpufleet-base-config.yaml"  # beside the files of the base: its own may be anywhere

Run = Callable[[], list[tuple[StateResource, ...]]]


def evaluate_program(
    root: Path,
    stack: str,
    ref: str | None = None,
    config_file: Path | None = None,
    limit_s: float = TIME_LIMIT_S,
    *,
    trusted: bool = False,
    may_be_unconfined: bool = False,
) -> tuple[StateResource, ...]:
    """Return the resources that ``stack`` declares in the working tree, or at a git ref."""
    program = StackProgram(root, stack, config_file, trusted=trusted, may_be_unconfined=may_be_unconfined)
    if ref is not None:
        program = _move_to_commit(program, ref)
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
    may_be_unconfined: bool = False,
    variables: Mapping[str, str] | None = None,
    base_config: str | None = None,
) -> Iterator[Run]:
    """Evaluate a stack at ``base`` and in the working tree.

    ``config_file`` is used instead of the stack's own in the working tree, ``base_config`` is its text at the base.
    """
    after = StackProgram(
        root,
        stack,
        config_file,
        trusted=trusted,
        variables=variables or {},
        may_be_unconfined=may_be_unconfined,
    )
    before = _move_to_commit(replace(after, config_file=None, config_text=base_config), base)
    with start_program_evaluation([before, after], limit_s) as run:
        yield run


def _move_to_commit(program: StackProgram, ref: str) -> StackProgram:
    """Return a program as it is at a git ref."""
    tree = find_git_tree(program.root, ref)
    folder = allowlist.find_visible_folder(program.root.resolve())
    visible_tree = find_git_tree(folder, ref) if tree else ""
    return replace(program, label=f"at {ref}", ref=ref, tree=tree, visible_tree=visible_tree)


@contextmanager
def start_program_evaluation(
    programs: Sequence[StackProgram], limit_s: float = TIME_LIMIT_S
) -> Iterator[Run]:
    """Start the child, which imports SDKs while the block runs; call the yielded function to run the programs.

    A labelled program may have no such stack yet: it then has no resources. A program whose graph is kept is not run.
    """
    last = programs[-1]
    variables = {**os.environ, **last.variables}
    base = next((program for program in programs if program.tree is not None), None)
    setting = ChildSetting(choose_python(base, last, variables), variables, limit_s, trusted=last.trusted)
    with ExitStack() as cleanup:
        # It starts before it is known whether a program has to run: imports are a third of its time.
        child = cleanup.enter_context(start_child(programs, setting))
        installation = Installation(setting.python, setting.variables)
        graphs = [load_kept_graph(program, installation) for program in programs]
        resource_lists = [_decode_kept_graph(graph) for graph in graphs]
        missing = [index for index, resources in enumerate(resource_lists) if resources is None]
        for index in missing:
            child.evaluations[index].is_compared = len(programs) > 1
            cleanup.enter_context(_provide_files(child.evaluations[index], setting))

        def run_programs() -> list[tuple[StateResource, ...]]:
            if not missing:
                return [resources or () for resources in resource_lists]
            outputs, is_confined = child.run([child.evaluations[index] for index in missing])
            installation = Installation(setting.python, setting.variables)  # as it is after the evaluation
            for index, output in zip(missing, outputs, strict=True):
                resource_lists[index] = _select_billable(output)
                if is_confined:
                    graphs[index].store_records(output.records, installation)
            return [resources or () for resources in resource_lists]

        if not missing:
            child.stop()
        yield run_programs


def _decode_kept_graph(graph: KeptGraph) -> tuple[StateResource, ...] | None:
    """Return the resources of a kept graph, None if there is none or it is invalid."""
    from gpufleet.cost.inputs.program.registration import decode_program_output  # pydantic

    if graph.content is None:
        return None
    with suppress(InputError):
        return _select_billable(decode_program_output(graph.content, "a kept graph"))
    return None


@contextmanager
def _provide_files(evaluation: ProgramEvaluation, setting: ChildSetting) -> Iterator[None]:
    """Provide the files that a program may see, in memory if they fit: a disk is slower."""
    program = evaluation.program
    root = program.root.resolve()
    evaluation.checkout = allowlist.find_repository(root) or root
    if not program.trusted:
        evaluation.visible = allowlist.list_visible_paths(setting.python, evaluation.checkout)
    if is_node_program(program):
        evaluation.tools = {"node": str(find_node(setting.variables))}
        evaluation.visible = [*evaluation.visible, *allowlist.list_tool_paths(evaluation.tools.values())]
    provide: AbstractContextManager[None]
    if program.tree is not None:
        provide = _unpack_other_commit(evaluation)
    elif program.trusted or sys.platform != "linux":  # it gets the folder itself
        evaluation.config_file = program.config_file and program.config_file.absolute()
        provide = nullcontext()
    else:
        provide = _copy_working_tree(evaluation)
    with provide, _provide_binary(evaluation, setting):
        yield


@contextmanager
def _provide_binary(evaluation: ProgramEvaluation, setting: ChildSetting) -> Iterator[None]:
    """Provide the binary of a Go program: nothing for another one, or one that does not exist at its commit."""
    runtime = read_program_runtime(evaluation.program, RUNTIME)
    if runtime is None or evaluation.program.tree == "":
        yield
        return
    with provide_go_binary(evaluation, setting, runtime):
        yield


@contextmanager
def _unpack_other_commit(evaluation: ProgramEvaluation) -> Iterator[None]:
    """Unpack what the program sees at its commit; where it can be confined, that is shown in the repository's place.

    So an absolute path, as of an editable install, leads to the other commit's file. Where nothing can be shown in
    another place, the program runs where its files are, and its Python's paths are changed.
    """
    program = evaluation.program
    folder = allowlist.find_visible_folder(program.root.resolve())
    entries = [
        entry
        for entry in list_git_files(folder, program.visible_tree)
        if is_inside(entry.path) and not allowlist.is_secret(entry.path)
    ]
    is_confined = _is_confined(program)
    size = sum(entry.size for entry in entries)
    with create_scratch_folder("base", find_folder_in_memory(2 * size)) as scratch:
        view = scratch.resolve()
        others = select_additions(folder, {entry.path for entry in entries}, evaluation.visible)
        places = {str(path.relative_to(folder)): path for path in others if path.is_relative_to(folder)}
        with explain_full_disk():
            write_git_files(read_git_files(entries), view, places if is_confined else None)
            config_file = _write_base_config(program, view)
        if is_node_program(program):
            names = [entry.path for entry in entries]
            evaluation.packages = find_package_folders(program, names, folder)
            place_packages(evaluation.packages, folder, view, is_confined=is_confined)
        if is_confined:
            evaluation.view, evaluation.visible = ProjectView(folder, view), others
            evaluation.config_file = config_file and folder / config_file.name
        else:
            root = view / program.root.resolve().relative_to(folder)
            evaluation.program, evaluation.config_file = replace(program, root=root), config_file
            evaluation.moved, evaluation.view = (folder, view), ProjectView(view, view)
        yield


def _is_confined(program: StackProgram) -> bool:
    """Return whether a program gets a file system of its own."""
    return not program.trusted and not (program.may_be_unconfined and not can_enter_namespaces())


def _write_base_config(program: StackProgram, root: Path) -> Path | None:
    """Write the stack's file that a comparison names, as it is at the base; None if it names none."""
    if program.config_text is None:
        return None
    path = root / BASE_CONFIG
    path.write_text(program.config_text, encoding="utf-8")
    return path


@contextmanager
def _copy_working_tree(evaluation: ProgramEvaluation) -> Iterator[None]:
    program = evaluation.program
    root = program.root.resolve()
    folder = allowlist.find_visible_folder(root)
    evaluation.config_file = program.config_file and enter_folder(program.config_file, folder)
    stack_file = evaluation.config_file or enter_folder(
        allowlist.find_stack_file(root, program.stack), folder
    )
    named = stack_file if evaluation.config_file or stack_file.is_relative_to(folder) else None
    files, others = select_files(folder, named, evaluation.visible)
    if is_node_program(program):
        evaluation.packages = find_package_folders(program, files, folder)
    with create_scratch_folder("head", find_folder_in_memory(2 * measure_files(folder, files))) as view:
        with explain_full_disk():
            packages = [each.target for each in evaluation.packages]
            evaluation.view = copy_files(folder, files, view.resolve(), others, packages)
        evaluation.visible = others
        yield


def _select_billable(output: ProgramOutput) -> tuple[StateResource, ...]:
    """Return the registered resources that the stack pays for."""
    resources = engine.parse_stack_state({"deployment": {"resources": output.records}})
    expanded = expand_remote_components(resources)
    return tuple(resource for resource in expanded if is_billable(resource))
