"""Test building a base image with a fake debootstrap: the image is complete or missing, no process remains."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpufleet.errors import EnvironmentFault
from gpufleet.rehearsal.rack import images

# FAKE debootstrap. Its last arguments are suite, target and (often) mirror; BEHAVE selects what it does.
FAKE_DEBOOTSTRAP = """#!/bin/sh
for word; do case "$word" in */.*.building) target=$word;; esac; done
mkdir -p "$target/etc/ssh" "$target/etc/systemd/system" "$target/var/lib/dbus"
echo key >"$target/etc/ssh/ssh_host_rsa_key"
echo "I: Retrieving systemd 252"
case "$BEHAVE" in
    fail) echo "E: Couldn't download packages: systemd"; exit 1 ;;
    hang) mount -t tmpfs held "$target/var"; echo hanging >"$HANGING"; exec sleep 300 ;;
esac
"""


@pytest.fixture
def debootstrap(monkeypatch, tmp_path):
    """Put the fake before the real one, and the cache into a folder of the test's."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/debootstrap").write_text(FAKE_DEBOOTSTRAP)
    (tmp_path / "bin/debootstrap").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HANGING", str(tmp_path / "hanging"))

    def behave(how):
        monkeypatch.setenv("BEHAVE", how)
        return tmp_path / "cache/gpufleet/hosts"

    return behave


def test_image_is_built_once(debootstrap):
    folder, messages = debootstrap("well"), []
    image = images.ensure_base_image(images.native_arch(), messages.append)
    built = len(messages)
    assert images.ensure_base_image(images.native_arch(), messages.append) == image
    assert (image.parent, len(messages)) == (folder, built)
    assert not (image / "etc/ssh/ssh_host_rsa_key").exists()
    assert not list(folder.glob(".*"))


def test_failed_build_leaves_no_image_and_reports_the_reason(debootstrap):
    folder = debootstrap("fail")
    with pytest.raises(EnvironmentFault, match="failed: E: Couldn't download packages: systemd") as failure:
        images.ensure_base_image(images.native_arch(), print)
    assert failure.value.hint.endswith("debootstrap.log")
    assert [path.name for path in folder.iterdir() if path.is_dir() and path.name[0] != "."] == []


def test_killed_build_leaves_no_process_or_mount(debootstrap, tmp_path):
    folder = debootstrap("hang")
    script = (
        "from gpufleet.rehearsal.rack import images; images.ensure_base_image(images.native_arch(), print)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.DEVNULL) as build:
        wait_for((tmp_path / "hanging").exists)
        assert find_build_processes(folder)
        build.kill()
    wait_for(lambda: not find_build_processes(folder))
    assert str(folder) not in Path("/proc/mounts").read_text()
    debootstrap("well")
    assert images.ensure_base_image(images.native_arch(), print).is_dir()
    assert not list(folder.glob(".*"))


def find_build_processes(folder):
    """List processes that see a mount in the folder: whatever the build started and is still there."""
    seen = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            seen += [process.name] if str(folder) in (process / "mountinfo").read_text() else []
        except OSError:
            continue
    return seen


def wait_for(condition, limit_s=120):
    deadline = time.monotonic() + limit_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert condition()
