"""Environment variables, Python and paths that an evaluated Pulumi program may use."""

from __future__ import annotations

import os
import re
import site
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

from gpufleet.boundary import decode_json, read_text
from gpufleet.engine.project_file import PROJECT_FILE, parse_project_setting
from gpufleet.errors import InputError

# Variables without secrets: locale, PATH, and the providers' regions (child.PROVIDER_VARIABLES).
ALLOWED_VARIABLES = (
    "PATH", "LANG", "LANGUAGE", "TZ", "VIRTUAL_ENV", "GPUFLEET_PRICES",
    "AWS_REGION", "AWS_DEFAULT_REGION", "GOOGLE_REGION", "GCLOUD_REGION", "CLOUDSDK_COMPUTE_REGION",
    "GOOGLE_ZONE", "GCLOUD_ZONE", "CLOUDSDK_COMPUTE_ZONE", "ARM_LOCATION",
)  # fmt: skip
LOCALE = "LC_"
# Credentials and our own records in any folder of a project, or in a home folder.
SECRET_PATHS = (
    ".git", ".gpufleet", ".pulumi", ".env", ".envrc", ".aws", ".azure", ".config", ".docker", ".gnupg", ".kube",
    ".netrc", ".npmrc", ".oci", ".pypirc", ".ssh", ".terraform.d", ".vault-token", ".git-credentials",
    ".bash_history", ".zsh_history", ".local/share/gpufleet", ".local/state/gpufleet", "credentials.json",
)  # fmt: skip
SECRET = re.compile(rf"(?:^|/)(?:{'|'.join(map(re.escape, SECRET_PATHS))})(?:/|$)")
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store")
ENVIRONMENT_PARTS = ("pyvenv.cfg", "bin", "lib", "lib64")  # what is shown of a virtual environment
BYTECODE = "__pycache__"  # not looked into
SITE_FOLDERS = ("site-packages", "dist-packages")
MAX_LINKS = 40  # one after another, as the kernel follows them
MAX_INSTALLED_FILES = 100_000  # of one folder that is installed as editable


def build_allowed_environment(variables: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return the variables of an evaluated program; its home folder is empty."""
    allowed = select_allowed_variables(variables)
    private = {"HOME": str(folder), "TMPDIR": str(folder)}
    return allowed | private | {"PULUMI_SKIP_UPDATE_CHECK": "true", "PYTHONUNBUFFERED": "1"}


def select_allowed_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that an evaluated program gets from the user."""
    return {
        name: value
        for name, value in variables.items()
        if name in ALLOWED_VARIABLES or name.startswith(LOCALE)
    }


def guess_clouds(root: Path, stack: str, config_file: Path | None) -> list[str]:
    """Return the clouds in a stack's file, to guess the program's imports."""
    text = _read_or_empty(config_file or find_stack_file(root, stack))
    return sorted(set(re.findall(r"\bcloud:\s*[\"']?(\w+)", text)))


def find_stack_file(root: Path, stack: str) -> Path:
    """Return the place of a stack's file, as its project names the folder: ``stackConfigDir``, once ``config``."""
    path = root / PROJECT_FILE
    with suppress(InputError):
        return find_declared_stack_file(root, stack, read_text(path) if path.is_file() else "")
    return root / f"Pulumi.{stack}.yaml"  # the evaluation reports the error


def find_declared_stack_file(root: Path, stack: str, project_text: str) -> Path:
    """Return the place of a stack's file by the content of its project's file; raise InputError if that is invalid."""
    where = str(root / PROJECT_FILE)
    folder = parse_project_setting(project_text, where, "stackConfigDir")
    if not folder:
        with suppress(InputError):  # the mapping of settings that it is today
            folder = parse_project_setting(project_text, where, "config")
    return root / folder / f"Pulumi.{stack}.yaml"


def list_visible_paths(python: Path | None, checkout: Path) -> list[Path]:
    """Return what a confined program sees apart from its project: Python, its packages, and our own child.

    A package that is installed as editable from the project's own ``checkout`` is the branch's code: no other commit
    imports it, and it is shown as any other tracked file.
    """
    installed = {
        Path(place) for place in (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix)
    }
    folders = find_editable_folders(python)
    places = [place for place in find_installed_paths(python) if Path(os.path.realpath(place)) not in folders]
    outside = [place for place in places if place in installed or python or not _overlap(place, checkout)]
    parts = [part for place in outside for part in _list_environment_parts(place)]
    linked = [place for part in parts for place in _find_linked_packages(part)]
    editable = [
        part
        for folder in folders
        if not _overlap(folder, checkout)
        for part in list_parts_without_secrets(folder)
    ]
    shown = [place for place in (*linked, *editable) if not _overlap(place, checkout)]
    return _without_covered([*parts, *shown, Path(__file__).parent])


def _overlap(place: Path, checkout: Path) -> bool:
    real = place.resolve()
    return real.is_relative_to(checkout) or checkout.is_relative_to(real)


def find_installed_paths(python: Path | None) -> list[Path]:
    """Return the installation of a Python, of this one by default, and the folders that it imports from."""
    return _virtualenv_paths(python) if python else find_interpreter_paths()


def find_editable_folders(python: Path | None) -> list[Path]:
    """Return the folders elsewhere that a Python imports from: ``.pth`` files and editable installs name them."""
    folders: set[Path] = set()
    for site_folder in _find_site_folders(find_installed_paths(python)):
        for file in site_folder.glob("*.pth"):
            lines = _read_or_empty(file).splitlines()
            names = [line for line in lines if line.strip() and not line.startswith(("#", "import "))]
            folders.update(site_folder / name.strip() for name in names)
        for file in site_folder.glob("*.dist-info/direct_url.json"):
            folders.update(_read_editable_folder(file))
    real_folders = {Path(os.path.realpath(folder)) for folder in folders}
    return sorted(folder for folder in real_folders if folder.is_dir() and _may_be_shown(folder))


def _read_editable_folder(record: Path) -> list[Path]:
    """Return the folder that an installer's record names as the source of an editable install."""
    with suppress(InputError):
        source = decode_json(read_text(record).encode(), str(record))
        is_editable = isinstance(source, dict) and "editable" in str(source.get("dir_info"))
        url = str(source.get("url")) if is_editable else ""
        return [Path(unquote(url.removeprefix("file://")))] if url.startswith("file:///") else []
    return []


def _find_site_folders(places: Iterable[Path]) -> list[Path]:
    """Return the folders of installed packages in environments and installations."""
    folders = {place for place in places if place.name in SITE_FOLDERS}
    folders |= {folder for place in places for folder in place.glob("lib*/python3*/*-packages")}
    folders |= {
        folder for place in places if place.name.startswith("lib") for folder in place.glob("*/*-packages")
    }
    return sorted({Path(os.path.realpath(folder)) for folder in folders})


def _find_linked_packages(place: Path) -> set[Path]:
    """Return where the links of installed packages lead: another environment's folder, or an installer's cache.

    The environment is the operator's, and git does not track it. What a link leads to is shown, and nothing around it
    unless that is a folder of installed packages.
    """
    found: set[str] = set()
    for folder in _find_site_folders([place]):
        for entry in os.scandir(folder):
            if entry.is_symlink():
                for target in _follow_link(entry.path):
                    above = os.path.dirname(target)  # noqa: PTH120 - thousands of links
                    found.add(above if above.endswith(SITE_FOLDERS) else target)
            elif entry.name.endswith(".dist-info"):  # each file may be a link to a cache
                found.update(
                    str(Path(target).parents[1]) for target in _follow_link(f"{entry.path}/METADATA")
                )
    return {path for path in map(Path, found) if path.exists() and _may_be_shown(path)}


def _follow_link(path: str) -> list[str]:
    """Return where a link leads, and each link on its way; nothing for anything else."""
    targets: list[str] = []
    while len(targets) < MAX_LINKS:
        try:
            target = os.readlink(path)  # noqa: PTH115 - thousands of links
        except OSError:  # no link
            break
        path = os.path.abspath(f"{path}/../{target}" if not target.startswith("/") else target)  # noqa: PTH100
        targets.append(path)
    return targets


def _may_be_shown(path: Path) -> bool:
    """Return whether a folder of packages is neither a home folder nor a place of credentials, nor contains one."""
    return is_apart_from_home(path) and not is_secret(str(path)) and not _is_system(path)


def _is_system(path: Path) -> bool:
    return any(path.is_relative_to(place) for place in SYSTEM)


def list_parts_without_secrets(folder: Path) -> list[Path]:
    """Return a folder, or what is in it apart from credentials and virtual environments; nothing if it is too large."""
    count = 0

    def walk(place: str, prefix: str) -> list[str]:
        nonlocal count
        parts, is_whole = [], True
        entries = [*os.scandir(place)]
        count += len(entries)
        if count > MAX_INSTALLED_FILES or any(entry.name == "pyvenv.cfg" for entry in entries):
            return []
        for entry in entries:
            name = prefix + entry.name
            if is_secret(name):
                is_whole = False
            elif entry.name != BYTECODE and entry.is_dir(follow_symlinks=False):
                below = walk(entry.path, f"{name}/")
                is_whole = is_whole and below == [entry.path]
                parts += below
            elif not entry.is_symlink():
                parts.append(entry.path)
        return [place] if is_whole else parts

    with suppress(OSError):
        found = walk(str(folder), "")
        return [Path(path) for path in found] if count <= MAX_INSTALLED_FILES else []
    return []


def find_interpreter_paths() -> list[Path]:
    """Return the installation of this Python and the folders that it imports from."""
    # The first place is that of the script or of `python -m`; neither it nor PYTHONPATH is the child's.
    excluded = {"", *os.environ.get("PYTHONPATH", "").split(os.pathsep)}
    paths = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix, *sys.path[1:]} - excluded
    paths |= {site.getusersitepackages()} if site.ENABLE_USER_SITE else set()
    return [Path(place) for place in sorted(paths) if is_apart_from_home(Path(place))]


def _virtualenv_paths(python: Path) -> list[Path]:
    """Return a virtual environment and the installation behind it."""
    installation = python.resolve().parents[1]
    is_installation = any(installation.glob("lib/python3*")) and is_apart_from_home(installation)
    return [python.parents[1].resolve(), *([installation] if is_installation else [])]


def _list_environment_parts(place: Path) -> list[Path]:
    """Return the parts of a virtual environment that Python needs; any other place is a part itself."""
    if not (place / "pyvenv.cfg").is_file():
        return [place]
    return [place / name for name in ENVIRONMENT_PARTS]


def list_tool_paths(tools: Iterable[str]) -> list[Path]:
    """Return the programs that are not in a folder of the system, which is shown anyway."""
    return _without_covered(Path(tool) for tool in tools)


def is_apart_from_home(path: Path) -> bool:
    """Return whether a folder is neither the home folder nor a parent of it."""
    return not Path.home().resolve().is_relative_to(path.resolve())


def is_secret(path: str) -> bool:
    """Return whether a path relative to a project has credentials or our own records, in any folder of it."""
    return SECRET.search(path) is not None


def find_repository(root: Path) -> Path | None:
    """Return the folder of the repository that a folder is in, None if it is in none."""
    return next((folder for folder in (root, *root.parents) if os.path.lexists(folder / ".git")), None)


def find_visible_folder(root: Path) -> Path:
    """Return the folder whose files a program may see: its project's repository.

    It is the project's own folder where the repository contains the home folder.
    """
    repository = find_repository(root)
    return repository if repository and is_apart_from_home(repository) else root


def _without_covered(paths: Iterable[Path]) -> list[Path]:
    """Return existing paths, resolved and as given, without those inside another one."""
    candidates = {
        path for path in paths for path in (path.absolute(), Path(os.path.realpath(path))) if path.exists()
    }
    uncovered: list[Path] = []
    for path in sorted(candidates, key=lambda path: (len(path.parts), path)):
        if not any(path.is_relative_to(covering) for covering in (*uncovered, *map(Path, SYSTEM))):
            uncovered.append(path)
    return uncovered


def _read_or_empty(path: Path) -> str:
    """Return a file's text, empty if unreadable: the evaluation reports the error."""
    with suppress(InputError):
        return read_text(path)
    return ""
