"""Test a blade with an arm64 image, run by qemu through the kernel's binfmt_misc."""

from __future__ import annotations

import pytest

ONE, TWO = "blades-poc/1", "blades-poc/2"


@pytest.mark.slow
def test_rack_runs_an_arm64_host_next_to_a_native_one(box):
    hosts = box.up(f"arm64: [{TWO}]")
    assert hosts[TWO].arch == "arm64"
    assert box.read(TWO, "uname -m; dpkg --print-architecture").split() == ["aarch64", "arm64"]
    assert box.read(TWO, "python3 -c 'import platform; print(platform.machine())'") == "aarch64"
    assert box.read(TWO, "vcgencmd get_throttled") == "throttled=0x0"
    assert box.read(ONE, "hostname") == "poc-blade01"
    box.down()
    assert box.leftovers() == []
