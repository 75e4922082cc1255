"""Write the launchers that the engine starts as provider plugins."""

from __future__ import annotations

import shlex
from pathlib import Path

# One data file for each simulated cloud.
CLOUDS = tuple(sorted(path.stem for path in (Path(__file__).parent / "data").glob("*.json")))

# A shell script instead of a "#!python" line, which fails with a long path or one with a space.
_LAUNCHER = """#!/bin/sh
# A simulated {cloud} provider for rehearsals (gpufleet); it never calls a cloud.
exec {python} -P -m gpufleet.rehearsal.providers {cloud} "$@"
"""


def install_provider_launchers(folder: Path, python: Path | str) -> list[Path]:
    """Write ``pulumi-resource-CLOUD`` for each simulated cloud into ``folder``; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    return [_write_launcher(folder / f"pulumi-resource-{cloud}", cloud, str(python)) for cloud in CLOUDS]


def _write_launcher(path: Path, cloud: str, python: str) -> Path:
    text = _LAUNCHER.format(cloud=cloud, python=shlex.quote(python))
    if not path.exists() or path.read_text() != text:
        temporary = path.with_name(
            f".{path.name}.new"
        )  # renamed: a running engine never reads an incomplete file
        temporary.write_text(text)
        temporary.chmod(0o755)
        temporary.replace(path)
    return path
