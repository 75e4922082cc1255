"""The modules of GDS and gdrcopy are built again if they are older than the driver's, and the checks are read."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

FILES = Path(__file__).parents[2] / "modules/ansible_collections/gpufleet/fleet/roles/nvidia_gpudirect/files"
# FAKE dkms and modinfo: the two forms in which dkms 2 and 3 print a status (dkms(8)), a log of what dkms is told to
# do, and the path of a module (modinfo(8)). stat answers with the change times of the test: the kernel sets real ones.
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
MODINFO = '#!/bin/sh\n[ -e "$TIMES/$2" ] && echo "$TIMES/$2"\n'
STAT = '#!/bin/sh\n[ -e "$4" ] && cat "$4"\n'
VERSIONS = {"nvidia-fs": "2.26.6", "gdrdrv": "2.5.1"}


def write_program(folder, name, text):
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ({"nvidia": 5, "nvidia-fs": 6, "gdrdrv": 5}, []),  # just installed
        ({"nvidia": 7, "nvidia-fs": 6, "gdrdrv": 5}, ["nvidia-fs", "gdrdrv"]),  # the driver changed
        ({"nvidia-current": 7, "nvidia-fs": 8, "gdrdrv": 5}, ["gdrdrv"]),  # Debian's name
        ({"nvidia": 5, "nvidia-fs": 6}, ["gdrdrv"]),  # added, and not built
        ({"nvidia-fs": 6, "gdrdrv": 5}, []),  # no module of the driver
    ],
)
def test_modules_older_than_the_driver_are_built(tmp_path, times, expected):
    for name, text in (("dkms", DKMS), ("modinfo", MODINFO), ("stat", STAT)):
        write_program(tmp_path, name, text)
    (tmp_path / "times").mkdir()
    for name, time in times.items():
        (tmp_path / "times" / name).write_text(f"{time}\n")
    log = tmp_path / "log"
    log.touch()
    paths = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "LOG": str(log), "TIMES": str(tmp_path / "times")}
    subprocess.run(["sh", FILES / "rebuild.sh"], env=os.environ | paths, capture_output=True, check=True)
    assert log.read_text().splitlines() == [
        f"{verb} -m {name} -v {VERSIONS[name]} --force" for name in expected for verb in ("build", "install")
    ]
