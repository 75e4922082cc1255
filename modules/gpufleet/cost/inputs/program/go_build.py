"""Build a Go program, confined, before it runs: with the user's Go, and the modules that its ``go.sum`` names.

Building runs no code of the program (without cgo), but an assembler file can include any file and its error shows it.
So it is confined as the program is. What it may write is a compile cache of gpufleet's own and the binary: never the
user's cache, which other builds trust, and the program itself sees neither.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

from gpufleet import paths
from gpufleet.boundary import decode_json, make_printable, read_text
from gpufleet.cost.inputs.program import allowlist
from gpufleet.cost.inputs.program.evaluation_child import ChildSetting, ProgramEvaluation
from gpufleet.cost.inputs.program.program_runtime import ProgramRuntime
from gpufleet.errors import EnvironmentFault, InputError
from gpufleet.scratch import create_scratch_folder

RUNTIME = "go"
BUILD_LIMIT_S = 900  # the first build of a cloud's SDK takes minutes, later ones seconds
GO_LIMIT_S = 20
SUM_FILES = ("go.sum", "go.work.sum")
MAX_SUM_FILES, MAX_MODULES, MAX_FOLDERS = 200, 5_000, 50_000
MODULE = re.compile(r"([A-Za-z0-9._~/-]{1,200}) (v[A-Za-z0-9.+-]{1,100})(?:/go\.mod)? h1:")
BINARY_BYTES = 1 << 30
MISSING = ("GOPROXY=off", "missing go.sum entry", "no required module provides", "cannot find module")
ERROR_LINES = 3


@dataclass(frozen=True)
class GoInstallation:
    """The Go that ``PATH`` finds: its program, its folder, the user's modules and flags."""

    program: Path
    root: Path
    modules: Path
    flags: str


def find_go(variables: Mapping[str, str]) -> GoInstallation:
    """Return the installed Go; raise EnvironmentFault if there is none. It is asked at /, where no project is."""
    found = shutil.which("go", path=variables.get("PATH"))
    if found is None:
        raise EnvironmentFault(
            "the Pulumi program is in Go, and go is not on the PATH",
            hint="install Go, or set runtime.options.binary to a built program",
        )
    try:
        completed = subprocess.run(
            [found, "env", "-json", "GOROOT", "GOMODCACHE", "GOFLAGS"],
            cwd="/", env={**variables, "GOTOOLCHAIN": "local"}, capture_output=True, check=True, timeout=GO_LIMIT_S,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        raise EnvironmentFault(
            f"go does not start: {make_printable(str(error))}", hint=f"try {found} version"
        ) from None
    answer = decode_json(completed.stdout, "go env")
    names = {name: str(answer.get(name, "")) for name in ("GOROOT", "GOMODCACHE", "GOFLAGS")}
    root = Path(names["GOROOT"])
    return GoInstallation(root / "bin/go", root, Path(names["GOMODCACHE"]), names["GOFLAGS"])


@contextmanager
def provide_go_binary(
    evaluation: ProgramEvaluation, setting: ChildSetting, runtime: ProgramRuntime
) -> Iterator[None]:
    """Provide the program's binary: the built one that its project names, else one that is built here."""
    program = evaluation.program
    named = _find_named_binary(evaluation, runtime)
    if named is not None:
        evaluation.tools = {**evaluation.tools, RUNTIME: str(named)}
        evaluation.visible = [*evaluation.visible, *_outside(evaluation, named)]
        yield
        return
    go = find_go(setting.variables)
    with create_scratch_folder("go") as scratch:
        output = scratch.resolve() / "output"
        for name in ("root", "home", "tmp", "output"):
            (scratch / name).mkdir(mode=0o700)
        cache = paths.user_cache_folder() / "go-build"
        paths.ensure_private_folder(cache)
        binary = output / "program"
        folder = program.root.resolve() / runtime.main
        bounds = evaluation.build_bounds(BUILD_LIMIT_S) | {
            "folder": str(scratch.resolve()),
            "visible": [str(path) for path in (*evaluation.visible, *_list_go_paths(go, evaluation))],
            "writable": [str(cache), str(output)],
            "file_bytes": BINARY_BYTES,
        }
        variables = dict(setting.variables) if program.trusted else {
            name: setting.variables[name] for name in ("PATH", "LANG") if name in setting.variables
        }  # fmt: skip
        variables |= {
            "GOROOT": str(go.root), "GOMODCACHE": str(go.modules), "GOCACHE": str(cache), "GOFLAGS": go.flags,
            "GOPROXY": "off", "GOSUMDB": "off", "GOTOOLCHAIN": "local", "GOENV": "off", "GOTELEMETRY": "off",
            "CGO_ENABLED": "0", "TMPDIR": str(output), "HOME": str(scratch.resolve() / "home"),
        }  # fmt: skip
        arguments = [str(go.program), "build", "-buildvcs=false", "-ldflags=-s -w", "-o", str(binary), "."]
        code, text = _run_confined(bounds, arguments, variables, folder)
        if code or not binary.is_file():
            raise _describe_failure(text, evaluation, folder)
        evaluation.tools = {**evaluation.tools, RUNTIME: str(binary)}
        evaluation.visible = [*evaluation.visible, binary]
        yield


def _find_named_binary(evaluation: ProgramEvaluation, runtime: ProgramRuntime) -> Path | None:
    """Return the ``binary`` of Pulumi.yaml if it is that of the commit: git tracks it, or nothing is compared."""
    program = evaluation.program
    if not runtime.binary:
        return None
    root = program.root.resolve()
    path = Path(os.path.normpath(root / runtime.binary))
    view = evaluation.view
    if view is not None and path.is_relative_to(view.folder):
        copy = view.view / path.relative_to(view.folder)
        if copy.is_file() and not copy.is_symlink():
            return path
    is_usable = (
        program.tree is None and path.is_relative_to(root) and path.is_file() and not path.is_symlink()
    )
    if is_usable and (not evaluation.is_compared or program.trusted):
        return path
    if (root / runtime.main / "go.mod").is_file() or any(
        (place / "go.mod").is_file() for place in root.parents
    ):
        return None
    raise InputError(
        "git does not track it, and there is no go.mod to build it from",
        where=f"{program.label}: Pulumi.yaml".removeprefix(": "),
        key="binary",
        remedy="commit the program's sources",
    )


def _outside(evaluation: ProgramEvaluation, binary: Path) -> list[Path]:
    """Return a binary that the view of the project does not have."""
    view = evaluation.view
    if view is None or not binary.is_relative_to(view.folder):
        return [binary]
    place = view.view / binary.relative_to(view.folder)
    if place.is_file():
        return []
    place.parent.mkdir(parents=True, exist_ok=True)
    place.touch()  # what is mounted needs a place
    return [binary]


def _list_go_paths(go: GoInstallation, evaluation: ProgramEvaluation) -> list[Path]:
    """Return what a build sees: Go, and the modules that the project's sums name."""
    shown = [go.root, *_list_module_paths(go.modules, _find_sum_files(evaluation))]
    return allowlist.list_tool_paths(str(path) for path in shown if allowlist.is_apart_from_home(path))


def _find_sum_files(evaluation: ProgramEvaluation) -> list[Path]:
    """Return the files with the sums of modules in what the program sees; a link is not followed."""
    top = evaluation.view.view if evaluation.view else evaluation.program.root
    found: list[Path] = []
    for count, (place, folders, names) in enumerate(os.walk(top)):
        folders[:] = [name for name in folders if name not in ("node_modules", ".git", "__pycache__")]
        found += [Path(place, name) for name in SUM_FILES if name in names]
        if count > MAX_FOLDERS or len(found) >= MAX_SUM_FILES:
            break
    return [path for path in found if not path.is_symlink()]


def _list_module_paths(cache: Path, sums: list[Path]) -> list[Path]:
    """Return the folders of modules in a module cache, and of what Go keeps of their downloads."""
    modules = {match for path in sums for match in MODULE.findall(read_text(path))}
    shown = set()
    for name, version in sorted(modules)[:MAX_MODULES]:
        escaped = re.sub(r"[A-Z]", lambda letter: f"!{letter[0].lower()}", name)
        if ".." not in escaped.split("/") and not escaped.startswith("/"):
            shown |= {cache / f"{escaped}@{version}", cache / "cache/download" / escaped / "@v"}
    return sorted(path for path in shown if path.is_dir())


def _run_confined(
    bounds: Mapping[str, object], arguments: list[str], variables: Mapping[str, str], folder: Path
) -> tuple[int, str]:
    """Run a command in the confinement of the bounds; return its exit code and its output."""
    from gpufleet.cost.inputs.program.evaluation_child import run_command

    with as_file(files("gpufleet.cost.inputs.program") / "child.py") as script:
        return run_command(
            [sys.executable, str(script)],
            {"bounds": bounds, "command": arguments, "variables": dict(variables), "folder": str(folder)},
            BUILD_LIMIT_S,
        )


def _describe_failure(text: str, evaluation: ProgramEvaluation, folder: Path) -> Exception:
    """Return the error of a build as one line: the first that names a fault, and what to do."""
    program = evaluation.program
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    problem = make_printable(" ".join(lines[:ERROR_LINES]) or "it printed nothing", 500)
    where = f"{program.label}: " if program.label else ""
    place = (
        str(folder.relative_to(program.root.resolve()))
        if folder.is_relative_to(program.root.resolve())
        else "."
    )
    if any(word in text for word in MISSING):
        download = "go mod download"
        at_base = f"git worktree add ../base {program.ref}, and run {download} in the project there"
        return InputError(
            f"modules of the Go program are not downloaded: {problem}",
            where=f"{where}{place}/go.mod",
            remedy=at_base if program.tree is not None else f"run {download} there",
        )
    return InputError(
        f"the Go program does not build: {problem}", where=f"{where}{place}", remedy="try go build"
    )
