"""The modules of GDS and gdrcopy are built again for a changed driver, and only then."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

SCRIPT = (
    Path(__file__).parents[2]
    / "modules/ansible_collections/gpufleet/fleet/roles/nvidia_gpudirect/files/rebuild.sh"
)
# FAKE dkms: the two forms in which dkms 2 and 3 print a status (dkms(8)), and a log of what it is told to do.
DKMS = """#!/bin/sh
if [ "$1" = status ]; then
  case $3 in
    nvidia-fs) echo "nvidia-fs/2.26.6, 6.8.0-60-generic, x86_64: installed" ;;
    gdrdrv) echo "gdrdrv, 2.5.1, 6.8.0-60-generic, x86_64: installed" ;;
  esac
else
  echo "$@" >>"$LOG"
fi
"""


def test_modules_are_built_once_for_each_driver(tmp_path):
    (tmp_path / "dkms").write_text(DKMS)
    (tmp_path / "dkms").chmod(0o755)
    log, stamp = tmp_path / "log", tmp_path / "state/stamp"
    env = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "LOG": str(log)}

    def rebuild(version):
        log.write_text("")
        subprocess.run(["sh", SCRIPT, version, stamp], env=env, capture_output=True, check=True)
        return log.read_text().splitlines()

    expected = [
        f"{verb} -m {name} -v {version} --force"
        for name, version in (("nvidia-fs", "2.26.6"), ("gdrdrv", "2.5.1"))
        for verb in ("build", "install")
    ]
    assert rebuild("580.95.05") == expected
    assert rebuild("580.95.05") == []
    assert rebuild("580.126.20") == expected
