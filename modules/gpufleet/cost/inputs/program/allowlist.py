"""Environment variables, Python and paths that an evaluated Pulumi program may use."""

from __future__ import annotations

import os
import re
import site
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpufleet.boundary import read_text
from gpufleet.engine import read_project_setting
from gpufleet.errors import InputError

# Variables without secrets: locale, PATH, and the providers' regions (child.PROVIDER_VARIABLES).
ALLOWED_VARIABLES = (
    "PATH", "LANG", "LANGUAGE", "TZ", "VIRTUAL_ENV", "GPUFLEET_PRICES",
    "AWS_REGION", "AWS_DEFAULT_REGION", "GOOGLE_REGION", "CLOUDSDK_COMPUTE_REGION", "GOOGLE_ZONE",
    "CLOUDSDK_COMPUTE_ZONE", "ARM_LOCATION",
)  # fmt: skip
LOCALE = "LC_"
# Credentials and our own records in a project's folder or a home folder.
SECRET_PATHS = (
    ".git", ".gpufleet", ".pulumi", ".env", ".envrc", ".aws", ".azure", ".config", ".docker", ".gnupg", ".kube",
    ".netrc", ".npmrc", ".oci", ".pypirc", ".ssh", ".terraform.d", ".vault-token", ".git-credentials",
    ".bash_history", ".zsh_history", ".local/share/gpufleet", ".local/state/gpufleet", "credentials.json",
)  # fmt: skip
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store")
GRACE_S = 5


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


def find_project_python(root: Path) -> Path | None:
    """Return the Python of a project's virtual environment, None if it is this one.

    A virtual environment that is committed to git is untrusted and not used.
    """
    virtualenv = _read_setting_or_empty(root, "runtime", "options", "virtualenv")
    if not virtualenv:
        return None
    folder = root / virtualenv
    python = folder / "bin" / "python"
    if not python.exists() or folder.resolve() == Path(sys.prefix).resolve() or _is_tracked(root, folder):
        return None
    return python


def guess_clouds(root: Path, stack: str, config_file: Path | None) -> list[str]:
    """Return the clouds in a stack's file, to guess the program's imports."""
    path = config_file or root / _read_setting_or_empty(root, "stackConfigDir") / f"Pulumi.{stack}.yaml"
    return sorted(set(re.findall(r"\bcloud:\s*[\"']?(\w+)", _read_or_empty(path))))


def build_sandbox_bounds(
    root: Path, config_file: Path | None, python: Path | None, folder: Path, limit_s: float, *, trusted: bool
) -> dict[str, Any]:
    """Return the bounds for ``sandbox.start_sandboxed_call``: visible and hidden paths, the writable folder, limits."""
    if trusted:
        return {"trusted": True, "folder": str(folder)}
    repository = _repository_root(root)
    visible = [
        *(_virtualenv_paths(python) if python else find_interpreter_paths()),
        repository,
        Path(__file__).parent,
    ]
    config_files = [Path(os.path.realpath(config_file))] if config_file else []
    visible += config_files
    # realpath: a committed link may be a loop, for which Path.resolve() raises RuntimeError
    hidden = {Path(os.path.realpath(place / name)) for place in {repository, root} for name in SECRET_PATHS}
    return {
        "trusted": False,
        "folder": str(folder),
        "visible": _without_covered(visible),
        "hidden": sorted(str(path) for path in hidden if path.is_relative_to(repository)),
        # A rehearsal keeps its own stack files in a folder that is hidden.
        "revealed": [str(path) for path in config_files if path.is_file()],
        "cpu_s": int(limit_s) + GRACE_S,
    }


def find_interpreter_paths() -> list[Path]:
    """Return the installation of this Python and the folders that it imports from."""
    # The first place is that of the script or of `python -m`; neither it nor PYTHONPATH is the child's.
    excluded = {"", *os.environ.get("PYTHONPATH", "").split(os.pathsep)}
    paths = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix, *sys.path[1:]} - excluded
    paths |= {site.getusersitepackages()} if site.ENABLE_USER_SITE else set()
    return [Path(place) for place in sorted(paths) if _is_apart_from_home(Path(place))]


def _virtualenv_paths(python: Path) -> list[Path]:
    """Return a virtual environment and the installation behind it."""
    installation = python.resolve().parents[1]
    is_installation = any(installation.glob("lib/python3*")) and _is_apart_from_home(installation)
    return [python.parents[1].resolve(), *([installation] if is_installation else [])]


def _is_apart_from_home(path: Path) -> bool:
    """Return whether a folder is neither the home folder nor a parent of it."""
    return not Path.home().resolve().is_relative_to(path.resolve())


def _repository_root(root: Path) -> Path:
    """Return the project's repository; if that contains the home folder, the project."""
    for folder in (root, *root.parents):
        if (folder / ".git").exists():
            return folder if _is_apart_from_home(folder) else root
    return root


def _without_covered(paths: Iterable[Path]) -> list[str]:
    """Return existing paths, resolved and as given, without those inside another one."""
    candidates = {
        path for path in paths for path in (path.absolute(), Path(os.path.realpath(path))) if path.exists()
    }
    uncovered: list[Path] = []
    for path in sorted(candidates, key=lambda path: len(path.parts)):
        if not any(path.is_relative_to(covering) for covering in (*uncovered, *map(Path, SYSTEM))):
            uncovered.append(path)
    return [str(path) for path in uncovered]


def _is_tracked(root: Path, folder: Path) -> bool:
    from gpufleet.cost.inputs.program.gitref import run_git

    return bool(run_git(root, "ls-files", "--", str(folder)).stdout.strip())


def _read_setting_or_empty(root: Path, *keys: str) -> str:
    """Return a text of the project's file, empty if the file is unreadable: the evaluation reports the error."""
    with suppress(InputError):
        return read_project_setting(root, *keys)
    return ""


def _read_or_empty(path: Path) -> str:
    """Return a file's text, empty if unreadable: the evaluation reports the error."""
    with suppress(InputError):
        return read_text(path)
    return ""
