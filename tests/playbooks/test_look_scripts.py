"""Test the scripts of roles with file trees and documented tool output."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROLES = Path(__file__).resolve().parents[2] / "modules/ansible_collections/gpufleet/fleet/roles"
# rocminfo, as in AMD's documentation of MI300X: processors have names too, agents of the GPU begin with gfx.
ROCMINFO = """ROCk module is loaded
=====================
HSA Agents
==========
*******
Agent 1
*******
  Name:                    AMD EPYC 9654 96-Core Processor
*******
Agent 2
*******
  Name:                    gfx942
  Marketing Name:          AMD Instinct MI300X
    ISA 1
      Name:                    amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-
"""
NO_ROCK = "ROCk module is NOT loaded, possibly no GPU devices\n"
# NVIDIA container toolkit 1.19.1, cmd/nvidia-ctk/cdi/list: the count goes to stderr, names to stdout.
NVIDIA_LIST = "nvidia.com/gpu=0\nnvidia.com/gpu=GPU-4b1c0b9e\nnvidia.com/gpu=all\n"
# ROCm/container-toolkit, cmd/amd-ctk/cdi/list/list.go.
AMD_LIST = """Found 2 AMD GPU devices
amd.com/gpu=all
amd.com/gpu=0
  /dev/dri/renderD128
amd.com/gpu=1
  /dev/dri/renderD129
"""


def run(role, script, *arguments, path=None, **more):
    """Run a role's script as Ansible does; return its status and its name=value lines."""
    text = (ROLES / role / "files" / script).read_text()
    env = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}"} if path else None
    argv = ["sh", "-c", text, script, *map(str, arguments)]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60, env=env, **more)


def answers(done):
    assert done.returncode == 0, done.stderr
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


def program(path, output, status=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{output}END\nexit {status}\n")
    path.chmod(0o755)


def files(root, tree):
    for name, text in tree.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{text}\n")


@pytest.mark.parametrize("folder", ["opt/rocm/bin", "opt/rocm/core-10.0/bin", "usr/bin"])
def test_rocm_programs_are_found_under_old_and_new_names(tmp_path, folder):
    program(tmp_path / folder / "rocminfo", ROCMINFO)
    program(tmp_path / folder / "amd-smi", "AMDSMI Tool: 26.0.0\n")
    facts = answers(run("rocm", "look.sh", tmp_path))
    assert facts["gfx"] == "gfx942"
    assert facts["rocminfo"] == f"{tmp_path}/{folder}/rocminfo"
    assert facts["amd_smi"] == "AMDSMI Tool: 26.0.0"
    assert "rocminfo_message" not in facts


@pytest.mark.parametrize(("version", "module"), [("6.16.13", "6.16.13"), (None, "inbox")])
def test_amdgpu_driver_of_the_kernel_has_no_version(tmp_path, version, module):
    files(tmp_path, {"sys/module/amdgpu/refcnt": "0", "dev/dri/renderD128": "", "dev/dri/renderD129": ""})
    if version:
        files(tmp_path, {"sys/module/amdgpu/version": version})
    facts = answers(run("rocm", "look.sh", tmp_path))
    assert (facts["module"], facts["render_nodes"]) == (module, "2")


@pytest.mark.parametrize(
    "colour", [("", ""), ("\x1b[31m", "\x1b[0m")], ids=["plain", "Debian 13's rocminfo 6.1.2"]
)
def test_missing_driver_is_reported_without_colours(tmp_path, colour):
    program(tmp_path / "usr/bin/rocminfo", colour[0] + NO_ROCK.strip() + colour[1] + "\n", status=1)
    assert answers(run("rocm", "look.sh", tmp_path))["rocminfo_message"] == NO_ROCK.strip()


def test_missing_driver_is_reported_with_the_message_of_rocminfo(tmp_path):
    program(tmp_path / "opt/rocm/bin/rocminfo", NO_ROCK, status=1)
    facts = answers(run("rocm", "look.sh", tmp_path))
    assert facts["rocminfo_message"] == NO_ROCK.strip()
    assert (facts["gfx"], facts["rocminfo_status"]) == ("", "1")
    assert "kfd" not in facts


def test_missing_users_are_reported_and_check_mode_adds_none():
    result = run("rocm", "members.sh", "trial", "render video", "root", "nobody-has-this-name")
    assert result.returncode == 0, result.stderr
    assert "missing nobody-has-this-name" in result.stdout
    assert (
        subprocess.run(["id", "-Gn", "root"], capture_output=True, text=True, check=True).stdout.strip()
        == "root"
    )


@pytest.mark.parametrize(
    ("vendor", "tool", "listing", "devices"),
    [
        (
            "nvidia",
            "nvidia-ctk",
            NVIDIA_LIST,
            "nvidia.com/gpu=0 nvidia.com/gpu=GPU-4b1c0b9e nvidia.com/gpu=all",
        ),
        ("amd", "amd-ctk", AMD_LIST, "amd.com/gpu=all amd.com/gpu=0 amd.com/gpu=1"),
        ("amd", "amd-ctk", "Found 0 AMD GPU devices\n", ""),
    ],
)
def test_container_device_names_are_listed(tmp_path, vendor, tool, listing, devices):
    program(tmp_path / "bin" / tool, listing)
    facts = answers(run("container_toolkit", "look.sh", vendor, tmp_path, path=tmp_path / "bin"))
    assert facts["devices"] == devices
    assert "no " in facts["why"]


def test_same_devices_in_two_specifications_are_counted(tmp_path):
    program(tmp_path / "bin/nvidia-ctk", NVIDIA_LIST)
    spec = "cdiVersion: 0.5.0\nkind: nvidia.com/gpu"
    files(
        tmp_path,
        {"etc/cdi/nvidia.yaml": spec, "var/run/cdi/nvidia.yaml": spec, "etc/cdi/other.yaml": "kind: x.y/z"},
    )
    facts = answers(run("container_toolkit", "look.sh", "nvidia", tmp_path, path=tmp_path / "bin"))
    assert facts["specifications"] == "2"


def port(root, device, number, **attributes):
    """Make a port's files as the kernel's ABI document has them."""
    base = f"class/infiniband/{device}"
    files(root, {f"{base}/device/vendor": attributes.pop("vendor", "0x15b3")})
    files(
        root, {f"{base}/ports/{number}/{name}": text for name, text in attributes.items() if name != "down"}
    )
    if "down" in attributes:
        files(root, {f"{base}/ports/{number}/counters/link_downed": attributes["down"],
                     f"{base}/ports/{number}/counters/link_error_recovery": "1"})  # fmt: skip


def test_ports_are_read_from_sysfs(tmp_path):
    up = {
        "link_layer": "InfiniBand",
        "state": "4: ACTIVE",
        "phys_state": "5: LinkUp",
        "rate": "400 Gb/sec (4X NDR)",
    }
    port(tmp_path, "mlx5_0", 1, **up, down="0")
    port(tmp_path, "mlx5_1", 1, **{**up, "state": "1: DOWN", "phys_state": "3: Disabled"}, down="7")
    port(tmp_path, "rdmap0", 1, **up, vendor="0x1d0f")
    result = run("ib_tools", "look.sh", tmp_path)
    assert result.stdout.splitlines() == [
        "mlx5_0 1 InfiniBand ACTIVE LinkUp 400 0 1",
        "mlx5_1 1 InfiniBand DOWN Disabled 400 7 1",
    ]


def test_port_without_counters_and_host_without_ports_are_accepted(tmp_path):
    assert run("ib_tools", "look.sh", tmp_path).stdout == ""
    port(tmp_path, "rxe0", 1, state="4: ACTIVE")
    assert run("ib_tools", "look.sh", tmp_path).stdout == "rxe0 1 - ACTIVE - - - -\n"


def test_efa_cards_are_counted_on_the_pci_bus(tmp_path):
    ids = [("0x1d0f", "0xefa1"), ("0x1d0f", "0xefa1"), ("0x1d0f", "0xec20"), ("0x15b3", "0x1021")]
    for number, (vendor, device) in enumerate(ids):
        files(tmp_path, {f"0000:{number:02x}:00.0/vendor": vendor, f"0000:{number:02x}:00.0/device": device})
    facts = answers(run("efa", "look.sh", tmp_path))
    assert facts["cards"] == "2"
    assert facts["module"] == "none" or Path("/sys/module/efa").is_dir()
