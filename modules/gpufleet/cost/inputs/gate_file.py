"""Files that decide a verdict: limits, commitments, usage, the budget. A branch must not choose its own.

With ``--base`` each is read as it is at that commit; the report names those that the branch changes or brings. What
only the branch has does not apply, except limits: they only forbid more. A file outside the repository is the
operator's, and is read as it is. The working tree's links are not followed: only the path as it is written is looked
up at the base.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from gpufleet.boundary import decode_text, make_printable, read_text
from gpufleet.cost.inputs.program.allowlist import find_repository
from gpufleet.cost.inputs.program.gitref import is_tracked, list_git_names, read_git, run_git
from gpufleet.errors import InputError

REGULAR_MODES = ("100644", "100755")
LINK_MODE = "120000"
TREE_ENTRY_FIELDS = 3  # mode, kind, object
FILE_ITSELF = "name the file itself"
MAX_LINKS = 40  # of a path, as in the kernel


@dataclass(frozen=True)
class GateFile:
    """A file's text as it decides, None if there is no such file.

    ``is_new`` if only the branch has it; ``warning`` if the branch has another one than the base.
    """

    text: str | None = None
    warning: str = ""
    is_new: bool = False


@dataclass(frozen=True)
class GateRepository:
    """The repository of a project, and the commit that its gate files are read from; ``base`` is its name."""

    top: Path
    base: str
    commit: str

    @classmethod
    def find(cls, folder: Path, base: str) -> GateRepository:
        """Return the repository around a folder; raise InputError without one, and for an unknown commit."""
        top = run_git(folder, "rev-parse", "--show-toplevel")
        name = f"{base}^{{commit}}"
        commit = run_git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", name)
        if top.returncode:
            remedy = "compare previews with --preview instead of --base"
            raise InputError("not in a git repository", where=str(folder), remedy=remedy)
        if commit.returncode:
            remedy = "give a branch, tag or commit that `git log` shows"
            raise InputError(f"no commit named {base!r}", where="--base", remedy=remedy)
        return cls(Path(os.fsdecode(top.stdout).rstrip("\n")), base, commit.stdout.decode().strip())

    def read(self, path: Path) -> GateFile:
        """Return a file as it is at the base; as it is in the branch if the base has none."""
        relative = self.relative_path(path)
        if relative is None:
            return _read_own_file(path)
        at_base = self._read_at_base(relative)
        if at_base is None:
            refuse_links_in_repository(path.parent)
            own = self.top / relative
            if own.is_symlink():
                raise InputError("is a symbolic link", where=make_printable(relative), remedy=FILE_ITSELF)
            is_new = os.path.lexists(own)
            return GateFile(read_text(own, follow_symlinks=False) if is_new else None, is_new=is_new)
        changed = f"this branch changes {make_printable(relative)}: that of {self.base} applies"
        return GateFile(at_base, "" if self._is_same_in_branch(relative, at_base) else changed)

    def read_at_base(self, path: Path) -> str | None:
        """Return a file's text as it is at the base, None if it is not there."""
        relative = self.relative_path(path)
        return None if relative is None else self._read_at_base(relative)

    def relative_path(self, path: Path) -> str | None:
        """Return a path relative to the repository as it is written; None if it is elsewhere.

        A link of the operator's that leads into the repository is followed; links inside of it are not.
        """
        # Path.resolve() raises RuntimeError for a loop of links.
        for candidate in (Path(os.path.abspath(path)), Path(os.path.realpath(path))):  # noqa: PTH100
            for folder in candidate.parents:
                if folder == self.top or (folder.exists() and folder.samefile(self.top)):
                    return candidate.relative_to(folder).as_posix()
        return None

    def _read_at_base(self, relative: str) -> str | None:
        """Return the text of a regular file at the base, None if there is no such file."""
        listed = read_git(
            self.top, "--literal-pathspecs", "ls-tree", "-z", "--full-tree", self.commit, "--", relative
        )
        fields = listed.split(b"\t")[0].decode().split()
        if len(fields) != TREE_ENTRY_FIELDS:
            return None
        mode, _, object_id = fields
        if mode == LINK_MODE:
            where = f"{make_printable(relative)} at {self.base}"
            raise InputError("is a symbolic link", where=where, remedy=FILE_ITSELF)
        if mode not in REGULAR_MODES:
            return None
        return decode_text(read_git(self.top, "cat-file", "blob", object_id), relative)

    def _is_same_in_branch(self, relative: str, text: str) -> bool:
        try:
            return read_text(self.top / relative, follow_symlinks=False) == text
        except InputError:  # deleted, or a link now
            return False


class GateFileReader:
    """Read gate files at the base of a comparison, and collect the warnings about those that the branch changes.

    Without a base there is none to read at: every file is that of the working tree.
    """

    def __init__(self, folder: Path | None, base: str | None) -> None:
        self._folder, self.base = folder, base
        self.warnings: list[str] = []

    @cached_property
    def repository(self) -> GateRepository | None:
        """The repository and its commit, looked up at first use; None without a base."""
        if self._folder is None or self.base is None:
            return None
        return GateRepository.find(self._folder, self.base)

    def read(self, path: Path) -> GateFile:
        """Return a file as it decides; its text is not to be used if it is new."""
        file = self.read_limits(path)
        if file.is_new:
            self.warn(f"{make_printable(path.name)} is not in {self.base}: it applies when it is merged")
        return file

    def read_limits(self, path: Path) -> GateFile:
        """Return a file of limits, which forbid more: they apply also if they are new."""
        file = self.repository.read(path) if self.repository else _read_own_file(path)
        self.warn(file.warning)
        return file

    def warn(self, text: str) -> None:
        """Add a warning to the report, once."""
        self.warnings += [text] if text and text not in self.warnings else []


def _read_own_file(path: Path) -> GateFile:
    """Return a file of the operator, or of the working tree where nothing is compared: its links are not followed."""
    refuse_links_in_repository(path)
    return GateFile(read_text(path) if os.path.lexists(path) else None)


def list_changed_files(root: Path, commit: str) -> frozenset[str]:
    """Return the tracked files of a project that differ from a commit, relative to the project."""
    # A branch's .gitmodules could hide a changed submodule.
    options = ("--name-only", "--no-ext-diff", "--no-renames", "--ignore-submodules=none", "-z", "--relative")
    return frozenset(list_git_names(root, "diff", *options, commit, "--", "."))


def refuse_links_in_repository(*paths: Path | None) -> None:
    """Raise InputError if a path passes through a link of a repository."""
    for path in paths:
        if link := find_link_in_repository(path) if path else None:
            problem, remedy = describe_link(link)
            raise InputError(problem, where=make_printable(path), remedy=remedy)


def describe_link(link: Path) -> tuple[str, str]:
    """Return the problem and the remedy of a path that passes through a link of a repository."""
    return f"passes through the symbolic link {make_printable(link.name)}", "give the path that it leads to"


def find_link_in_repository(path: Path) -> Path | None:
    """Return the first link of a repository that a path passes through, None without one.

    Such a link may be the branch's, and lead to another project: the base would be read there. A link of the operator's
    that leads into the repository from elsewhere is followed.
    """
    given = _find_working_folder() / path
    target = find_repository(Path(os.path.realpath(given)))
    place, parts, links = Path("/"), [*reversed(given.parts)], 0
    while parts:
        part = parts.pop()
        here = place / part
        if part == "..":
            place = place.parent
        elif not here.is_symlink():
            place = here
        else:
            repository, links = find_repository(place), links + 1
            if repository and (repository == target or is_tracked(repository, here)):
                return here
            if links > MAX_LINKS:
                raise InputError("has too many symbolic links", where=make_printable(path))
            parts += reversed(here.readlink().parts)
    return None


def _find_working_folder() -> Path:
    """Return the current folder as the shell entered it: the system only knows where its links lead."""
    named = Path(os.environ.get("PWD", ""))
    with suppress(OSError):
        if named.is_absolute() and named.samefile(Path.cwd()):
            return named
    return Path.cwd()


def refuse_tracked_price_store(store: Path | None) -> None:
    """Raise InputError if git tracks the price store or a link on the way to it: a branch could set its prices."""
    if store is None or not os.path.lexists(store):
        return
    path = Path(os.path.abspath(store))  # noqa: PTH100 - resolve() follows links
    folder = next((each for each in path.parents if (each / ".git").exists()), None)
    if folder is None:
        return
    relative = path.relative_to(folder)
    ancestors = {each.as_posix() for each in (relative, *relative.parents)} - {"."}
    tracked = list_git_names(folder, "--literal-pathspecs", "ls-files", "-z", "--", *sorted(ancestors))
    if ancestors.intersection(tracked):
        raise InputError(
            "git tracks it: a branch could set its own prices",
            where=str(store),
            remedy="GPUFLEET_PRICES=embedded, or a file outside the repository",
        )
