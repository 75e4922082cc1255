"""Environment variables, Python and paths that an evaluated Pulumi program may use."""

from __future__ import annotations

import os
import re
import site
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from gpufleet.boundary import read_text
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
    places = _virtualenv_paths(python) if python else find_interpreter_paths()
    places = [
        place
        for place in places
        if place in installed
        or python
        or not (place.resolve().is_relative_to(checkout) or checkout.is_relative_to(place.resolve()))
    ]
    places.append(Path(__file__).parent)
    return _without_covered(part for place in places for part in _list_environment_parts(place))


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


def is_apart_from_home(path: Path) -> bool:
    """Return whether a folder is neither the home folder nor a parent of it."""
    return not Path.home().resolve().is_relative_to(path.resolve())


def is_secret(path: str) -> bool:
    """Return whether a path relative to a project has credentials or our own records, in any folder of it."""
    return SECRET.search(path) is not None


def find_repository(root: Path) -> Path | None:
    """Return the folder of the repository that a folder is in, None if it is in none."""
    return next((folder for folder in (root, *root.parents) if os.path.lexists(folder / ".git")), None)


def find_visible_folder(root: Path, *, is_compared: bool) -> Path:
    """Return the folder whose files a program in the working tree may see: its project's repository.

    It is the project's own folder where that is compared with another commit, of which no more is unpacked, and where
    the repository contains the home folder.
    """
    repository = None if is_compared else find_repository(root)
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
