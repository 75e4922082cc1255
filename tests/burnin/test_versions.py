"""Test versions of kernel, firmware and drivers: what the agent reads, and which of equal nodes differ."""

from __future__ import annotations

import pytest

from gpufleet.burnin import version_consistency as consistency
from gpufleet.burnin.agent import nvidia_cards
from gpufleet.burnin.agent.host import CommandOutput, HostAccess
from gpufleet.burnin.check_definition import load_checks
from gpufleet.burnin.checks.versions import measure as versions
from gpufleet.burnin.checks.versions.read import read_parts
from gpufleet.burnin.thresholds import select_thresholds
from gpufleet.burnin.verdict import judge_check

# As the driver writes it (nv-procfs.c of NVIDIA's open kernel modules).
GPU = "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 408\nVideo BIOS: \t {}\nGPU Firmware: \t 580.159.04\n"
SERVER = {
    "/etc/os-release": 'NAME="Ubuntu"\nPRETTY_NAME="Ubuntu 24.04.3 LTS"\n',
    "/proc/sys/kernel/osrelease": "6.8.0-90-generic\n",
    "/sys/class/dmi/id/bios_version": "2.3.1\n",
    "/sys/bus/platform/devices/ipmi_bmc.0/firmware_revision": "1.62\n",
    "/sys/devices/system/cpu/cpu0/microcode/version": "0x2b000639\n",
    "/sys/module/nvidia/version": "580.159.04\n",
    "/proc/driver/nvidia/gpus/0000:18:00.0/information": GPU.format("96.00.89.00.01"),
    "/proc/driver/nvidia/gpus/0000:2a:00.0/information": GPU.format("96.00.89.00.01"),
    "/sys/class/infiniband/mlx5_0/hca_type": "MT4129\n",
    "/sys/class/infiniband/mlx5_0/fw_ver": "28.43.2566\n",
    "/sys/class/nvme/nvme0/model": "SAMSUNG MZQL23T8HCLS-00A07\n",
    "/sys/class/nvme/nvme0/firmware_rev": "GDC5602Q\n",
}


@pytest.fixture
def make_host(tmp_path):
    """Give a function that lays out a host."""

    def make(files, tools=None):
        for name, text in files.items():
            path = tmp_path / name.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        answers = tools or {}
        return HostAccess(
            root=str(tmp_path),
            run=lambda argv, _timeout: CommandOutput(0, answers[" ".join(argv)], ""),
            which=lambda tool: tool if any(line.startswith(tool) for line in answers) else None,
        )

    return make


def judge(raw):
    record = {"name": "versions", "status": "ran", "raw": raw}
    return judge_check(record, select_thresholds("gpu_server"), "", False)


def test_versions_of_a_server_are_read(make_host):
    raw = versions.measure_host(make_host(SERVER)).raw
    assert raw["parts"] == {
        "BIOS": ["2.3.1"],
        "BMC": ["1.62"],
        "GPU NVIDIA H100 80GB HBM3 GSP firmware": ["580.159.04"],
        "GPU NVIDIA H100 80GB HBM3 VBIOS": ["96.00.89.00.01"],
        "NVMe SAMSUNG MZQL23T8HCLS-00A07": ["GDC5602Q"],
        "RDMA MT4129": ["28.43.2566"],
        "driver nvidia": ["580.159.04"],
        "kernel": ["6.8.0-90-generic"],
        "microcode": ["0x2b000639"],
        "operating system": ["Ubuntu 24.04.3 LTS"],
    }
    assert judge(raw).outcome == "pass"


def test_equal_gpus_with_different_firmware_are_a_warning(make_host):
    other = {"/proc/driver/nvidia/gpus/0000:2a:00.0/information": GPU.format("96.00.74.00.01")}
    result = judge(versions.measure_host(make_host({**SERVER, **other})).raw)
    assert (result.outcome, "different firmware" in result.reason) == ("warn", True)


CLOSED = "??.??.??.??.??\nGPU UUID: \t GPU-????????-????-????-????-????????????"
QUERY = "nvidia-smi --query-gpu=pci.bus_id,uuid,vbios_version --format=csv,noheader"


def test_card_that_no_program_has_open_says_its_firmware_to_nvidia_smi(make_host):
    closed = {"/proc/driver/nvidia/gpus/0000:2a:00.0/information": GPU.format(CLOSED)}
    rows = "00000000:18:00.0, GPU-1, 96.00.89.00.01\n00000000:2A:00.0, GPU-2, 96.00.74.00.01\n"
    raw = versions.measure_host(make_host({**SERVER, **closed}, {QUERY: rows})).raw
    assert raw["parts"]["GPU NVIDIA H100 80GB HBM3 VBIOS"] == ["96.00.74.00.01", "96.00.89.00.01"]


def test_opening_cards_leaves_the_check_time_to_end():
    assert load_checks()["versions"].run.seconds >= nvidia_cards.OPEN_SECONDS + versions.COMMAND_SECONDS


def test_firmware_that_nobody_can_tell_is_no_version(make_host):
    closed = {"/proc/driver/nvidia/gpus/0000:2a:00.0/information": GPU.format(CLOSED)}
    raw = versions.measure_host(make_host({**SERVER, **closed})).raw
    assert raw["parts"]["GPU NVIDIA H100 80GB HBM3 VBIOS"] == ["96.00.89.00.01"]


def test_drives_of_a_model_may_have_different_firmware(make_host):
    other = {
        "/sys/class/nvme/nvme1/model": "SAMSUNG MZQL23T8HCLS-00A07",
        "/sys/class/nvme/nvme1/firmware_rev": "GDC5902Q",
    }
    raw = versions.measure_host(make_host({**SERVER, **other})).raw
    assert raw["parts"]["NVMe SAMSUNG MZQL23T8HCLS-00A07"] == ["GDC5602Q", "GDC5902Q"]
    assert judge(raw).outcome == "pass"


def test_amd_vbios_and_the_eeprom_of_a_pi_are_read(make_host):
    device = "/sys/bus/pci/devices/0000:03:00.0"
    files = {f"{device}/device": "0x74a1\n", f"{device}/vbios_version": "113-M3000100-102\n"}
    files["/proc/device-tree/model"] = "Raspberry Pi 5 Model B Rev 1.0\x00"
    # As `vcgencmd bootloader_version` answers (raspberrypi/documentation, raspberry-pi-eeprom-boot-flow).
    answer = "2024/09/23 14:02:56\nversion 26826259 (release)\ntimestamp 1727096576\nupdate-time 0\n"
    raw = versions.measure_host(make_host(files, {"vcgencmd bootloader_version": answer})).raw
    assert raw["parts"] == {"GPU 0x74a1 VBIOS": ["113-M3000100-102"], "EEPROM": ["1727096576"]}


def test_interface_without_a_driver_has_no_firmware():
    assert versions.read_adapter_firmware("no-such-device") is None


@pytest.mark.parametrize("raw", [{}, {"parts": []}, {"parts": {"kernel": "6"}}, {"parts": {"kernel": []}}])
def test_record_without_versions_is_not_run(raw):
    assert judge(raw).outcome == "not_run"


def test_hostile_versions_are_bounded_and_printable():
    parts = read_parts({"parts": {f"p{at}\x1b[2J": ["\x1b[31m" * 99] * 99 for at in range(999)}})
    assert len(parts) == 200
    assert all(len(text) <= 100 and text.isprintable() for texts in parts.values() for text in texts)


def compare(**kernels):
    nodes = [consistency.NodeVersions(name, "h100, train", {"kernel": kernel} if kernel else {"BIOS": "1"})
             for name, kernel in kernels.items()]  # fmt: skip
    return [finding for finding in consistency.compare_versions(nodes) if finding.part == "kernel"]


def test_minority_is_named():
    (finding,) = compare(n1="6.8", n2="6.8", n3="6.1")
    assert (finding.node, finding.version, finding.usual, finding.usual_count, finding.group_size) == (
        "n3", "6.1", "6.8", 2, 3,
    )  # fmt: skip


def test_missing_part_differs_too():
    (finding,) = compare(n1="6.8", n2="6.8", n3=None)
    assert (finding.node, finding.version) == ("n3", "none")


def test_without_a_majority_all_are_named():
    findings = compare(n1="6.8", n2="6.8", n3="6.1", n4="6.1")
    assert [(finding.node, finding.usual) for finding in findings] == [
        ("n1", ""),
        ("n2", ""),
        ("n3", ""),
        ("n4", ""),
    ]


def test_equal_nodes_and_nodes_of_other_groups_agree():
    assert compare(n1="6.8", n2="6.8") == []
    other = [consistency.NodeVersions(name, name, {"kernel": name}) for name in ("a", "b")]
    assert consistency.compare_versions(other) == []
