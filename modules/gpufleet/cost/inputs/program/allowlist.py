"""What a Pulumi program may see while it is evaluated: an environment, a Python, and paths of the file system."""

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
from gpufleet.errors import InputError

# Variables without secrets: locale, PATH, and the providers' regions (child.PROVIDER_VARIABLES).
ENVIRONMENT = (
    "PATH", "LANG", "LANGUAGE", "TZ", "VIRTUAL_ENV", "GPUFLEET_PRICES",
    "AWS_REGION", "AWS_DEFAULT_REGION", "GOOGLE_REGION", "CLOUDSDK_COMPUTE_REGION", "GOOGLE_ZONE",
    "CLOUDSDK_COMPUTE_ZONE", "ARM_LOCATION",
)  # fmt: skip
LOCALE = "LC_"
# What a project's folder and a home folder keep that is no business of a program: credentials and our own records.
SECRETS = (
    ".git", ".gpufleet", ".pulumi", ".env", ".envrc", ".aws", ".azure", ".config", ".docker", ".gnupg", ".kube",
    ".netrc", ".npmrc", ".oci", ".pypirc", ".ssh", ".terraform.d", ".vault-token", ".git-credentials",
    ".bash_history", ".zsh_history", ".local/share/gpufleet", ".local/state/gpufleet", "credentials.json",
)  # fmt: skip
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store")
GRACE_S = 5


def environment(variables: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return the variables that an evaluated program gets; its home is empty and its own."""
    kept = {
        name: value for name, value in variables.items() if name in ENVIRONMENT or name.startswith(LOCALE)
    }
    private = {"HOME": str(folder), "TMPDIR": str(folder)}
    return kept | private | {"PULUMI_SKIP_UPDATE_CHECK": "true", "PYTHONUNBUFFERED": "1"}


def project_python(root: Path) -> Path | None:
    """Return the Python of the virtual environment that a project names; None where that is this one.

    A virtual environment that git keeps belongs to whoever wrote the commit: it is not used.
    """
    text = _text(root / "Pulumi.yaml")
    named = re.search(r"^\s*virtualenv:\s*[\"']?([^\"'\s#]+)", text, re.MULTILINE)
    if named is None:
        return None
    folder = root / named.group(1)
    python = folder / "bin" / "python"
    if not python.exists() or folder.resolve() == Path(sys.prefix).resolve() or _is_tracked(root, folder):
        return None
    return python


def clouds(root: Path, stack: str, config_file: Path | None) -> list[str]:
    """Return the clouds that a stack's file names: a guess at what its program imports."""
    kept = re.search(r"^stackConfigDir:\s*[\"']?([^\"'\s#]+)", _text(root / "Pulumi.yaml"), re.MULTILINE)
    path = config_file or root / (kept.group(1) if kept else ".") / f"Pulumi.{stack}.yaml"
    return sorted(set(re.findall(r"\bcloud:\s*[\"']?(\w+)", _text(path))))


def bounds(
    root: Path, config_file: Path | None, python: Path | None, folder: Path, limit_s: float, *, trusted: bool
) -> dict[str, Any]:
    """Return what ``sandbox.start`` takes: the paths to show and to hide, where to write, and the limits."""
    if trusted:
        return {"trusted": True, "folder": str(folder)}
    top = _repository(root)
    shown = [*(_interpreter(python) if python else _own_interpreter()), top, Path(__file__).parent]
    shown += [config_file.resolve()] if config_file else []
    hidden = {(place / name).resolve() for place in {top, root} for name in SECRETS}
    return {
        "trusted": False,
        "folder": str(folder),
        "visible": _without_covered(shown),
        "hidden": sorted(str(path) for path in hidden if path.is_relative_to(top)),
        # A rehearsal keeps its own stack files in a folder that is hidden.
        "revealed": [str(config_file.resolve())] if config_file and config_file.is_file() else [],
        "cpu_s": int(limit_s) + GRACE_S,
    }


def _own_interpreter() -> list[Path]:
    # The first place is that of the script or of `python -m`; neither it nor PYTHONPATH is the child's.
    others = {"", *os.environ.get("PYTHONPATH", "").split(os.pathsep)}
    places = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix, *sys.path[1:]} - others
    places |= {site.getusersitepackages()} if site.ENABLE_USER_SITE else set()
    return [Path(place) for place in sorted(places) if _is_apart_from_home(Path(place))]


def _interpreter(python: Path) -> list[Path]:
    """Return a virtual environment and the installation behind it."""
    behind = python.resolve().parents[1]
    is_installation = any(behind.glob("lib/python3*")) and _is_apart_from_home(behind)
    return [python.parents[1].resolve(), *([behind] if is_installation else [])]


def _is_apart_from_home(path: Path) -> bool:
    """Return True unless a folder is the home folder or holds it."""
    return not Path.home().resolve().is_relative_to(path.resolve())


def _repository(root: Path) -> Path:
    """Return the top of the repository that a project is in, unless that holds the home folder; else the project."""
    for place in (root, *root.parents):
        if (place / ".git").exists():
            return place if _is_apart_from_home(place) else root
    return root


def _without_covered(paths: Iterable[Path]) -> list[str]:
    """Return existing paths, real ones and as they were given, without those that another one shows."""
    every = {each for path in paths for each in (path.absolute(), path.resolve()) if path.exists()}
    shown: list[Path] = []
    for path in sorted(every, key=lambda each: len(each.parts)):
        if not any(path.is_relative_to(cover) for cover in (*shown, *map(Path, SYSTEM))):
            shown.append(path)
    return [str(path) for path in shown]


def _is_tracked(root: Path, folder: Path) -> bool:
    from gpufleet.cost.inputs.program.gitref import run_git

    return bool(run_git(root, "ls-files", "--", str(folder)).stdout.strip())


def _text(path: Path) -> str:
    """Return a file's text, none where it cannot be read: the evaluation says what is wrong with it."""
    with suppress(InputError):
        return read_text(path)
    return ""
