"""Test parsing of reported facts with recorded output."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from gpufleet.remote.facts import COMMAND, find_main_mac_address, parse_probe_answer, split_probe_sections
from gpufleet.remote.hardware_facts import HardwareFacts, parse_hardware_facts

CASES = Path(__file__).resolve().parents[1] / "cases/remote"


def test_serial_of_a_blade_is_read_from_the_device_tree():
    facts = parse_probe_answer((CASES / "probe-rehearsed-blade.txt").read_text())
    assert (facts.serial, facts.serial_source) == ("10000000c8b2a3ea", "device_tree")
    assert facts.model.startswith("Raspberry Pi Compute Module 4 Rev 1.1")
    assert (facts.os, facts.os_version, facts.arch) == ("debian", "12", "x86_64")
    assert facts.mac == "02:c8:b2:a3:ea:f2"


def test_machine_without_serial_has_an_empty_one():
    facts = parse_probe_answer((CASES / "probe-vm.txt").read_text())
    assert (facts.serial, facts.serial_source, facts.model) == ("", "", "")
    assert facts.mac == "02:fc:00:00:00:01", "the card with the default route, not the first by name"


def test_command_runs_in_a_real_shell():
    run = subprocess.run(["sh", "-c", COMMAND], capture_output=True, text=True, timeout=60, check=False)
    facts = parse_probe_answer(run.stdout)
    assert (run.stderr, facts.arch, facts.kernel) == ("", os.uname().machine, os.uname().release)
    assert facts.hardware.cpus == sum(
        line.startswith("processor") for line in Path("/proc/cpuinfo").read_text().splitlines()
    )
    assert facts.hardware.booted_at
    assert set(split_probe_sections(run.stdout)) >= {"arch", "os_release", "interfaces", "pci", "drives"}


def test_files_that_one_grep_reads_are_told_apart():
    answer = (
        "=== gpufleet arch\naarch64\n=== gpufleet files\n/etc/os-release:ID=ubuntu\n/etc/os-release:VERSION_ID=24.04\n"
        "/sys/firmware/devicetree/base/serial-number:10000000c8b2a3ea\n/sys/class/net/eth0/address:02:c8:b2:a3:ea:f2\n"
        "/proc/net/route:Iface\tDestination\n/proc/net/route:eth0\t00000000\n/etc/shadow:root:x\n"
    )
    facts = parse_probe_answer(answer)
    assert (facts.os, facts.os_version, facts.serial) == ("ubuntu", "24.04", "10000000c8b2a3ea")
    assert facts.mac == "02:c8:b2:a3:ea:f2"
    assert "root" not in str(split_probe_sections(answer))


def test_hardware_is_read_from_the_kernel_and_nvidia_smi():
    facts = parse_hardware_facts(
        {
            "cpus": "96",
            "cpu_model": "model name\t: AMD EPYC 9654 96-Core Processor",
            "memory": "MemTotal:       1056000000 kB",
            "booted": "btime 1795905938",
            "pci": "0000:17:00.0 0x030200 0x10de 0x2330 0x10de 0x16c1\nevil; 0x03 rm\n",
            "drives": "nvme0n1 3750748848 Dell Ent NVMe PM1733a MU\nsr0 0 \n",
            "nvidia_driver": "570.124.06",
            "nvidia_cards": "/usr/bin/nvidia-smi\n"
            "NVIDIA H100 80GB HBM3, GPU-5f0a, 1652923012345, 00000000:17:00.0, 81559, [N/A]\n",
        }
    )
    assert facts == HardwareFacts(
        cpus=96,
        cpu_model="AMD EPYC 9654 96-Core Processor",
        memory_gib=1007.1,
        pci=({"address": "0000:17:00.0", "class": "030200", "id": "10de:2330", "subsystem": "10de:16c1"},),
        drives=({"name": "nvme0n1", "gib": 1788.5, "model": "Dell Ent NVMe PM1733a MU"},),
        nvidia_cards=(
            {
                "name": "NVIDIA H100 80GB HBM3",
                "uuid": "GPU-5f0a",
                "serial": "1652923012345",
                "bus": "00000000:17:00.0",
                "memory_mib": 81559,
            },
        ),
        nvidia_driver="570.124.06",
        booted_at=1795905938,
    )


@pytest.mark.parametrize(
    "answers",
    [
        {"cpus": "-1", "memory": "MemTotal: ² kB", "booted": "btime", "nvidia_driver": "$(id)"},
        {"cpus": "9" * 40, "pci": "0000:17:00.0", "drives": "nvme0n1\n../x 5 y", "nvidia_cards": "a, b"},
    ],
)
def test_malformed_hardware_is_not_reported(answers):
    assert parse_hardware_facts(answers) == HardwareFacts()


def test_text_before_the_first_section_is_ignored():
    assert parse_probe_answer("Welcome!\narch: riscv\n=== gpufleet arch\naarch64\n").arch == "aarch64"


def test_dmi_is_used_without_a_device_tree():
    answer = "=== gpufleet device_tree_serial\n=== gpufleet dmi_serial\n=== gpufleet dmi_board_serial\nB-77\n"
    facts = parse_probe_answer(answer)
    assert (facts.serial, facts.serial_source) == ("B-77", "dmi")


def test_what_tells_boards_of_one_chassis_apart_is_read():
    answer = (
        "=== gpufleet dmi_serial\n0AB1C24\n=== gpufleet dmi_board_serial\n..CN7016348F00AB.\n"
        "=== gpufleet dmi_uuid\n4c4c4544-0041-4210-8031-b0c04f433234\n"
    )
    facts = parse_probe_answer(answer)
    assert (facts.serial, facts.board_serial) == ("0AB1C24", "..CN7016348F00AB.")
    assert facts.uuid == "4c4c4544-0041-4210-8031-b0c04f433234"


@pytest.mark.parametrize("text", ["", "no such shell", "=== gpufleet", "=== gpufleet arch"])
def test_empty_output_gives_empty_facts(text):
    facts = parse_probe_answer(text)
    assert (facts.list_reported_values(), facts.serial) == ({}, "")


def test_first_card_with_an_address_is_used_without_a_default_route():
    assert (
        find_main_mac_address("", "lo/address:00:00:00:00:00:00\neth1/address:02:00:00:00:00:07\n")
        == "02:00:00:00:00:07"
    )
