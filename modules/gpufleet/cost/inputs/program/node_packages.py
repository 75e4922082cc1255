"""Node and the packages of a TypeScript or JavaScript program: what is shown to it next to its own files.

``node_modules`` is not in git. The working tree's is shown, read-only, in its place. Another commit gets the same one
if both have the same lock file: packages are code, and those of a branch must not evaluate the base. Otherwise it gets
that of a worktree which has the base's lock file.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gpufleet.boundary import decode_json, make_printable
from gpufleet.cost.inputs.program import allowlist
from gpufleet.cost.inputs.program.gitref import find_git_tree, list_git_names, read_git_file
from gpufleet.cost.inputs.program.language.nodejs import (
    INSTALL_COMMANDS,
    SMALL_MEMORIES,
    find_install_command,
)
from gpufleet.cost.inputs.program.stack_program import StackProgram
from gpufleet.engine.project_file import PROJECT_FILE, parse_project_setting
from gpufleet.errors import EnvironmentFault, InputError

RUNTIME = "nodejs"
FOLDER, PACKAGE_FILE = "node_modules", "package.json"
# What npm, Yarn (1 and later) and pnpm write into node_modules when they change it.
MARKERS = (".package-lock.json", ".yarn-integrity", ".yarn-state.yml", ".modules.yaml", ".pnpm/lock.yaml")
MAX_PACKAGES = 1000  # of a workspace
NODE_LIMIT_S = 20
OLDEST_NODE = (
    "20.15"  # the first with the option in QUESTION (of 22: 22.2), without which WebAssembly needs too much
)
OPTION = SMALL_MEMORIES[0]
QUESTION = (
    f"[process.execPath, process.version, process.allowedNodeEnvironmentFlags.has('{OPTION}')].join('\\n')"
)
DEPENDENCIES = (
    "dependencies",
    "devDependencies",
    "optionalDependencies",
    "peerDependencies",
    "overrides",
    "resolutions",
)


@dataclass(frozen=True)
class PackageFolder:
    """A ``node_modules``: where it is (``source``), and where the program sees it."""

    source: Path
    target: Path


def is_node_program(program: StackProgram) -> bool:
    """Return whether a program is in TypeScript or JavaScript; an unreadable file is reported by the evaluation."""
    with suppress(InputError, UnicodeDecodeError, OSError):
        if program.tree is not None:
            text = (read_git_file(program.root, program.tree, PROJECT_FILE) or b"").decode()
        else:
            text = (program.root / PROJECT_FILE).read_text(encoding="utf-8")
        if RUNTIME not in text:
            return False
        with suppress(InputError):
            return parse_project_setting(text, PROJECT_FILE, "runtime") == RUNTIME
        return parse_project_setting(text, PROJECT_FILE, "runtime", "name") == RUNTIME
    return False


def find_node(variables: Mapping[str, str]) -> Path:
    """Return the Node that ``PATH`` finds: the program itself, not what a version manager puts in its place.

    Raise EnvironmentFault if there is none, or one before ``OLDEST_NODE``.
    """
    return _find_node(variables.get("PATH", ""))


@cache
def _find_node(path: str) -> Path:
    found = shutil.which("node", path=path)
    if found is None:
        problem = "the Pulumi program is in TypeScript or JavaScript, and node is not on the PATH"
        raise EnvironmentFault(problem, hint=f"install Node.js {OLDEST_NODE} or newer")
    try:
        completed = subprocess.run(
            [found, "-p", QUESTION],
            cwd="/",  # no file of a project chooses the version
            env={"PATH": path, "HOME": str(Path.home())},
            capture_output=True, text=True, check=True, timeout=NODE_LIMIT_S,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        hint = f"try {found} --version"
        raise EnvironmentFault(f"node does not start: {make_printable(str(error))}", hint=hint) from None
    place, version, can_run = completed.stdout.split("\n")[:3]
    if can_run != "true":
        problem = f"node is {make_printable(version)}, which cannot run confined"
        raise EnvironmentFault(problem, hint=f"install Node.js {OLDEST_NODE} or newer")
    return Path(os.path.realpath(place))


def find_package_folders(program: StackProgram, names: Iterable[str], folder: Path) -> list[PackageFolder]:
    """Return each ``node_modules`` of a program.

    ``names`` are the files that it sees of ``folder``. They are next to a ``package.json`` there, and next to or above
    the project in its repository. Raise InputError if another commit needs other packages than are installed.
    """
    root = program.root.resolve()
    top = allowlist.find_repository(root) or root
    checkout = top if program.tree is None else _find_checkout_with_packages(program, root, top)
    tracked = set(names)
    packages = [name for name in tracked if name.rpartition("/")[2] == PACKAGE_FILE][:MAX_PACKAGES]
    places = {folder / os.path.dirname(name) for name in packages}  # noqa: PTH120 - thousands of names
    places |= {place for place in (root, *root.parents) if place.is_relative_to(top)}
    in_git = {name.partition(f"{FOLDER}/")[0] for name in tracked if f"{FOLDER}/" in name} | {
        name.removesuffix(FOLDER) for name in tracked if name.endswith(FOLDER)
    }
    found = []
    for place in sorted(places):
        target = place / FOLDER
        inside = f"{place.relative_to(folder)}/".removeprefix("./") if place.is_relative_to(folder) else None
        source = Path(os.path.realpath(checkout / target.relative_to(top)))
        if (
            inside not in in_git
            and source.name == FOLDER
            and source.is_dir()
            and allowlist.is_apart_from_home(source)
        ):
            found.append(PackageFolder(source, target))
    return found


def place_packages(
    folders: Iterable[PackageFolder], root: Path, unpacked: Path, *, is_confined: bool
) -> Path:
    """Prepare the ``unpacked`` files of another commit for their packages, and return where the project is for it.

    A confined program sees its files at ``root``, the project's own place, because links inside of ``node_modules``
    lead to packages of the project. One that is not confined sees ``unpacked``, with links to the packages.
    """
    for folder in folders:
        if not folder.target.is_relative_to(root):
            continue
        place = unpacked / folder.target.relative_to(root)
        if is_confined:
            place.mkdir(parents=True, exist_ok=True)
        elif not os.path.lexists(place):
            place.symlink_to(folder.source, target_is_directory=True)
    return root if is_confined else unpacked


def describe_installed_packages(program: StackProgram) -> str | None:
    """Return a digest of what installers write about the packages of a program, None if there is no such file."""
    digest, count = hashlib.sha256(), 0
    root = program.root.resolve()
    try:
        folders = find_package_folders(program, (), root)
    except InputError:
        return None
    for folder in folders:
        digest.update(f"{folder}\n".encode())
        for name in MARKERS:
            with suppress(FileNotFoundError):
                digest.update((folder.source / name).read_bytes())
                count += 1
    return digest.hexdigest() if count else None


def _find_checkout_with_packages(program: StackProgram, root: Path, top: Path) -> Path:
    """Return the checkout that has the packages of a commit: this one, or another worktree of the repository."""
    base = _describe_requirements(_GitFiles(program.ref, root, top), root, top)
    listed = list_git_names(root, "worktree", "list", "--porcelain", "-z")
    worktrees = [Path(line.removeprefix("worktree ")) for line in listed if line.startswith("worktree ")]
    for checkout in (top, *worktrees):
        inner = checkout / root.relative_to(top)
        if base == _describe_requirements(_CheckoutFiles(), inner, checkout) and (
            checkout == top
            or any(
                (place / FOLDER).is_dir()
                for place in (inner, *inner.parents)
                if place.is_relative_to(checkout)
            )
        ):
            return checkout
    command = find_install_command(root)
    raise InputError(
        "its packages are not those that are installed: the lock file differs",
        where=program.label,
        remedy=f"git worktree add ../base {program.ref}, and run {command} in the project there",
    )


class _CheckoutFiles:
    """The files of a checkout."""

    def read(self, path: Path) -> bytes | None:
        with suppress(OSError):
            return path.read_bytes()
        return None


class _GitFiles:
    """The files of a commit."""

    def __init__(self, ref: str, root: Path, top: Path) -> None:
        self._ref, self._root, self._top = ref, root, top
        self._trees: dict[Path, str] = {}

    def read(self, path: Path) -> bytes | None:
        folder = path.parent
        if folder not in self._trees:
            self._trees[folder] = find_git_tree(folder, self._ref)
        return read_git_file(folder, self._trees[folder], path.name)


def _describe_requirements(files: _CheckoutFiles | _GitFiles, root: Path, top: Path) -> Any:
    """Return what decides which packages are installed: the nearest lock file, else the dependencies by name."""
    places = [place for place in (root, *root.parents) if place.is_relative_to(top)]
    for place in places:
        for name in INSTALL_COMMANDS:
            content = files.read(place / name)
            if content is not None:
                return str(place.relative_to(top)), name, content
    for place in places:
        content = files.read(place / PACKAGE_FILE)
        if content is not None:
            document = decode_json(content, PACKAGE_FILE)
            declared = document if isinstance(document, dict) else {}
            return json.dumps({key: declared.get(key) for key in DEPENDENCIES}, sort_keys=True)
    return None
