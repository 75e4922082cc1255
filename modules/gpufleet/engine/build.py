"""Build the engine and its Python language host from Go modules, once, into the user's cache.

Two modules with their checksums are the recipe (``data/``). A build runs in a
temporary folder next to its target, and the finished folder is renamed to it: an incomplete engine is never
visible. Go caches what it has compiled, so that an interrupted build resumes.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gpufleet.engine.go_build import GoBuild
from gpufleet.engine.go_toolchain import ensure_go_toolchain, read_go_version
from gpufleet.engine.installation import (
    LANGUAGE_EXEC,
    LANGUAGE_HOST,
    VERSION,
    PulumiEngine,
    compute_engine_build_digest,
    engine_go_modules_folder,
    find_built_pulumi_engine,
    find_installed_pulumi_engine,
    find_pulumi_engine,
    pulumi_engine_cache_folder,
)
from gpufleet.engine.lock import exclusive_file_lock
from gpufleet.errors import EnvironmentFault

ReportLine = Callable[[str], None]
VERSION_SYMBOL = "github.com/pulumi/pulumi/sdk/v3/go/common/version.Version"


@dataclass(frozen=True)
class GoProgram:
    """One program of the engine: the module in ``data/`` that it is built from, and its package."""

    name: str
    module: str
    package: str
    version: str


ENGINE_PROGRAM = GoProgram("pulumi", "pulumi", "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi", VERSION)
# Later releases keep the language host in a module of its own, which Go cannot fetch by itself. This one
# works with the engine above; it knows no `toolchain` option, so the virtual environment must be on PATH.
LANGUAGE_HOST_PROGRAM = GoProgram(
    LANGUAGE_HOST, "language", "github.com/pulumi/pulumi/sdk/v3/python/cmd/pulumi-language-python", "3.70.0"
)


def ensure_pulumi_engine(report: ReportLine) -> PulumiEngine:
    """Return an engine, building it first where none is installed or built."""
    engine = find_pulumi_engine()
    if engine:
        return engine
    installed_engine = find_installed_pulumi_engine()
    if installed_engine:
        report(f"{installed_engine.pulumi} cannot be used: {installed_engine.defect}")
    target = pulumi_engine_cache_folder()
    with exclusive_file_lock(target.parent / ".lock", report, "building the Pulumi engine"):
        return find_built_pulumi_engine() or _build_engine(target, report)


def _build_engine(target: Path, report: ReportLine) -> PulumiEngine:
    started = time.monotonic()
    _remove_leftovers(target)
    command = ensure_go_toolchain(report)
    report(f"building the Pulumi engine {VERSION} with {command}: once, about 5 minutes on 2 cores")
    work = Path(tempfile.mkdtemp(prefix=".building-", dir=target.parent))
    try:
        for number, program in enumerate((ENGINE_PROGRAM, LANGUAGE_HOST_PROGRAM), start=1):
            _build_program(program, command, work, _prefix_step(report, number))
        _copy_exec(command, work)
        _publish_build(work, target, command)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    report(f"Pulumi engine {VERSION} built in {time.monotonic() - started:.0f} s: {target}")
    engine = find_built_pulumi_engine()
    if engine is None:
        raise EnvironmentFault(
            f"the engine was built but was not found in {target}", hint="check the disk and its permissions"
        )
    return engine


def _prefix_step(report: ReportLine, number: int) -> ReportLine:
    return lambda text: report(f"[{number}/2] {text}")


def _remove_leftovers(target: Path) -> None:
    """Remove what killed builds left; we hold the lock, so none of it is in use."""
    for folder in target.parent.glob(".building-*"):
        shutil.rmtree(folder, ignore_errors=True)


def _build_program(program: GoProgram, command: Path, work: Path, report: ReportLine) -> None:
    module = work / program.module
    shutil.copytree(engine_go_modules_folder() / program.module, module)
    flags = f"-s -w -X {VERSION_SYMBOL}=v{program.version}"
    GoBuild(command, module, program.name, report).build_package(
        program.package, work / "bin" / program.name, flags
    )


def _copy_exec(command: Path, work: Path) -> None:
    """Take the script that runs a Python program from the engine's own SDK module, of the same version."""
    build = GoBuild(command, work / ENGINE_PROGRAM.module, LANGUAGE_EXEC, lambda _: None)
    source = build.find_go_module_folder("github.com/pulumi/pulumi/sdk/v3") / "python" / "cmd" / LANGUAGE_EXEC
    target = work / "bin" / LANGUAGE_EXEC
    shutil.copyfile(source, target)
    target.chmod(0o755)


def _publish_build(work: Path, target: Path, command: Path) -> None:
    """Rename the finished build to its place; an older recipe's build makes room for it."""
    for part in (ENGINE_PROGRAM, LANGUAGE_HOST_PROGRAM):
        shutil.rmtree(work / part.module)
    record = {
        "version": VERSION,
        "language_host": LANGUAGE_HOST_PROGRAM.version,
        "recipe": compute_engine_build_digest(),
        "go": ".".join(str(part) for part in read_go_version(command)),
    }
    (work / "built.json").write_text(json.dumps(record, indent=2) + "\n")
    work.chmod(0o755)
    if target.exists():
        target.rename(work.with_name(work.name + ".old"))
    work.replace(target)
    _remove_leftovers(target)
