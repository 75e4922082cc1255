"""Builds the engine and its Python language host from Go modules, once, into the user's cache.

Two modules with their checksums are the recipe (``data/``). A build happens in a folder of its own beside
the place where the result goes, and the finished folder is renamed there: an engine is there whole or not
at all. Go keeps what it has compiled, so a build that was killed goes on where it was.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gpufleet.engine.gobuild import GoBuild
from gpufleet.engine.installation import (
    LANGUAGE_EXEC,
    LANGUAGE_HOST,
    VERSION,
    Engine,
    built_folder,
    find,
    find_built,
    installed,
    recipe_digest,
    recipe_folder,
)
from gpufleet.engine.lock import exclusive
from gpufleet.engine.toolchain import go, go_version
from gpufleet.errors import EnvironmentFault

Say = Callable[[str], None]
VERSION_SYMBOL = "github.com/pulumi/pulumi/sdk/v3/go/common/version.Version"


@dataclass(frozen=True)
class Part:
    """One program of the engine: the module in ``data/`` that it is built from, and its package."""

    name: str
    module: str
    package: str
    version: str


ENGINE = Part("pulumi", "pulumi", "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi", VERSION)
# Later releases keep the language host in a module of its own, which Go cannot fetch by itself. This one
# works with the engine above; it knows no `toolchain` option, so the virtual environment must be on PATH.
HOST = Part(
    LANGUAGE_HOST, "language", "github.com/pulumi/pulumi/sdk/v3/python/cmd/pulumi-language-python", "3.70.0"
)


def ensure(say: Say) -> Engine:
    """Return an engine, building it first where none is installed or built."""
    found = find()
    if found:
        return found
    unfit = installed()
    if unfit:
        say(f"{unfit.pulumi} will not do: {unfit.lacks}")
    place = built_folder()
    with exclusive(place.parent / ".lock", say, "building the Pulumi engine"):
        return find_built() or _build(place, say)


def _build(place: Path, say: Say) -> Engine:
    started = time.monotonic()
    _clear_leftovers(place)
    command = go(say)
    say(f"building the Pulumi engine {VERSION} with {command}: once, about 5 minutes on 2 cores")
    work = Path(tempfile.mkdtemp(prefix=".building-", dir=place.parent))
    try:
        for number, part in enumerate((ENGINE, HOST), start=1):
            _build_part(part, command, work, _numbered(say, number))
        _copy_exec(command, work)
        _finish(work, place, command)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    say(f"Pulumi engine {VERSION} built in {time.monotonic() - started:.0f} s: {place}")
    engine = find_built()
    if engine is None:
        raise EnvironmentFault(
            f"the engine just built is not in {place}", hint="check the disk and its permissions"
        )
    return engine


def _numbered(say: Say, number: int) -> Say:
    return lambda text: say(f"[{number}/2] {text}")


def _clear_leftovers(place: Path) -> None:
    """Remove what killed builds left; we hold the lock, so none of it is in use."""
    for folder in place.parent.glob(".building-*"):
        shutil.rmtree(folder, ignore_errors=True)


def _build_part(part: Part, command: Path, work: Path, say: Say) -> None:
    module = work / part.module
    shutil.copytree(recipe_folder() / part.module, module)
    flags = f"-s -w -X {VERSION_SYMBOL}=v{part.version}"
    GoBuild(command, module, part.name, say).run(part.package, work / "bin" / part.name, flags)


def _copy_exec(command: Path, work: Path) -> None:
    """Take the script that runs a Python program from the engine's own SDK module, of the same version."""
    build = GoBuild(command, work / ENGINE.module, LANGUAGE_EXEC, lambda _: None)
    source = build.module_folder("github.com/pulumi/pulumi/sdk/v3") / "python" / "cmd" / LANGUAGE_EXEC
    target = work / "bin" / LANGUAGE_EXEC
    shutil.copyfile(source, target)
    target.chmod(0o755)


def _finish(work: Path, place: Path, command: Path) -> None:
    """Rename the finished build to its place; an older recipe's build makes room for it."""
    for part in (ENGINE, HOST):
        shutil.rmtree(work / part.module)
    record = {
        "version": VERSION,
        "language_host": HOST.version,
        "recipe": recipe_digest(),
        "go": ".".join(str(part) for part in go_version(command)),
    }
    (work / "built.json").write_text(json.dumps(record, indent=2) + "\n")
    work.chmod(0o755)
    if place.exists():
        place.rename(work.with_name(work.name + ".old"))
    work.replace(place)
    _clear_leftovers(place)
