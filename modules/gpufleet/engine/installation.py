"""Where a Pulumi engine is: installed on PATH, or built once into the user's cache."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gpufleet import paths
from gpufleet.boundary import decode_json_object, read_bytes
from gpufleet.errors import InputError

# What we build, and the oldest we take: the engine that our own tests run on.
VERSION = "3.258.0"
LANGUAGE_HOST = "pulumi-language-python"
LANGUAGE_EXEC = "pulumi-language-python-exec"
# A folder on PATH with this file in it holds a launcher of ours named `pulumi`, not an engine.
LAUNCHER_MARK = ".gpufleet-launcher"


@dataclass(frozen=True)
class PulumiEngine:
    """A Pulumi engine that can run Python programs."""

    pulumi: Path
    version: str
    bin_dir: Path
    origin: Literal["installed", "built"]


@dataclass(frozen=True)
class InstalledPulumiEngine:
    """An engine on PATH, good enough or not; ``defect`` is the reason if it is not."""

    pulumi: Path
    version: str
    defect: str | None


def pulumi_engine_cache_folder() -> Path:
    """Return where the engine of ``VERSION`` is built."""
    return paths.user_cache_folder() / "engine" / VERSION


def find_pulumi_engine(search_path: str | None = None) -> PulumiEngine | None:
    """Return the installed engine when it is good enough, else the built one, else nothing."""
    installed_engine = find_installed_pulumi_engine(search_path)
    if installed_engine and not installed_engine.defect:
        return PulumiEngine(
            installed_engine.pulumi, installed_engine.version, installed_engine.pulumi.parent, "installed"
        )
    return find_built_pulumi_engine()


def find_built_pulumi_engine() -> PulumiEngine | None:
    """Return the engine built by this version's recipe, when its build was finished."""
    folder = pulumi_engine_cache_folder()
    try:
        record = decode_json_object(read_bytes(folder / "built.json"), "built.json")
    except InputError:
        return None
    bin_dir = folder / "bin"
    has_all_programs = all((bin_dir / name).is_file() for name in ("pulumi", LANGUAGE_HOST, LANGUAGE_EXEC))
    if (
        not has_all_programs
        or not isinstance(record, dict)
        or record.get("recipe") != compute_engine_build_digest()
    ):
        return None
    return PulumiEngine(bin_dir / "pulumi", str(record["version"]), bin_dir, "built")


def find_installed_pulumi_engine(search_path: str | None = None) -> InstalledPulumiEngine | None:
    """Return the first `pulumi` on PATH that is an engine itself: no launcher and no build of ours."""
    folders = _remove_project_folders(os.environ.get("PATH", "") if search_path is None else search_path)
    executable = shutil.which("pulumi", path=folders) if folders else None
    if executable is None:
        return None
    version = read_pulumi_version(Path(executable))
    return InstalledPulumiEngine(
        Path(executable), version or "unknown", _describe_defect(Path(executable), version, folders)
    )


def _remove_project_folders(search: str) -> str:
    built = pulumi_engine_cache_folder() / "bin"
    folders = (Path(entry) for entry in search.split(os.pathsep) if entry)
    return os.pathsep.join(str(at) for at in folders if at != built and not (at / LAUNCHER_MARK).exists())


def read_pulumi_version(executable: Path) -> str | None:
    """Return what `pulumi version` says, without the v."""
    environment = {**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "true"}
    try:
        run = subprocess.run(
            [str(executable), "version"],
            capture_output=True, text=True, timeout=30, check=False, env=environment,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.match(r"v?(\d+\.\d+\.\d+\S*)", run.stdout.strip())
    return match[1] if match and run.returncode == 0 else None


def _describe_defect(executable: Path, version: str | None, search: str) -> str | None:
    if version is None:
        return "it does not answer `pulumi version`"
    if _parse_version(version) < _parse_version(VERSION):
        return f"{version} is older than {VERSION}"
    folders = os.pathsep.join((str(executable.resolve().parent), search))
    missing = [name for name in (LANGUAGE_HOST, LANGUAGE_EXEC) if not shutil.which(name, path=folders)]
    return f"its Python language host is missing ({', '.join(missing)})" if missing else None


def _parse_version(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def engine_go_modules_folder() -> Path:
    """Return the folder with the modules' requirements and checksums."""
    return Path(__file__).with_name("data")


def compute_engine_build_digest() -> str:
    """Return a digest of everything a build is made from; another digest means: build again."""
    import hashlib

    digest = hashlib.sha256(VERSION.encode())
    for name in ("pulumi/go.mod", "pulumi/go.sum", "language/go.mod", "language/go.sum"):
        digest.update((engine_go_modules_folder() / name).read_bytes())
    return digest.hexdigest()[:16]
