"""Test the agent's checks on simulated hosts: file trees and recorded tool output."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import threading
import time

import pytest

from gpufleet.burnin.agent import fio, identity, network_stream, stress_ng, workers
from gpufleet.burnin.agent.command import CommandOutput, run_command
from gpufleet.burnin.agent.host import HostAccess
from gpufleet.burnin.checks.cpu import measure as cpu
from gpufleet.burnin.checks.gpu_amd import measure as gpu_amd
from gpufleet.burnin.checks.memory import measure as memory
from gpufleet.burnin.checks.network import measure as network
from gpufleet.burnin.checks.pi_throttled import measure as pi_throttled
from gpufleet.burnin.checks.storage import measure as storage
from gpufleet.burnin.thresholds import select_thresholds
from gpufleet.burnin.verdict import judge_check

ROUTE = "Iface\tDestination\tGateway\tFlags\neth1\t00000000\t010012C6\t0003\n"


@pytest.fixture
def make_host(tmp_path):
    """Give a function that lays out a host: files by path, tools by command line."""

    def make(files=None, tools=None, **params):
        for name, text in (files or {}).items():
            path = tmp_path / name.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        answers = tools or {}

        def run(argv, timeout, consume=None):
            del timeout
            answer = answers[" ".join(argv)]
            for line in answer.out.splitlines() if consume else ():
                consume(line)
            return answer

        return HostAccess(
            params=params, root=str(tmp_path), run=run, which=lambda tool: find_fake_tool(answers, tool)
        )

    return make


def find_fake_tool(answers, tool):
    return tool if any(line.split()[0] == tool for line in answers) else None


def test_raspberry_pi_is_identified(make_host):
    files = {"/proc/device-tree/serial-number": "10000000abcd\x00", "/etc/machine-id": "f00d\n"}
    facts = identity.read_host_identity(
        make_host({**files, "/proc/device-tree/model": "Raspberry Pi Compute Module 4\x00"})
    )
    assert (facts["serial"], facts["machine_id"]) == ("10000000abcd", "f00d")
    assert facts["model"] == "Raspberry Pi Compute Module 4"


def test_machine_is_identified_from_a_named_file(make_host):
    host = make_host(
        {"/etc/serial": "S1\n", "/proc/device-tree/serial-number": "other"}, serial_file="/etc/serial"
    )
    assert identity.read_host_identity(host)["serial"] == "S1"


@pytest.mark.parametrize(
    ("other", "is_same"),
    [("IRQ: \t 409\nGPU UUID: \t GPU-1\n", True), ("IRQ: \t 408\nGPU UUID: \t GPU-2\n", False)],
)
def test_digest_of_hardware_knows_a_card_by_its_uuid_alone(make_host, other, is_same):
    place = "/proc/driver/nvidia/gpus/0000:18:00.0/information"
    digest = identity.digest_hardware(make_host({place: "IRQ: \t 408\nGPU UUID: \t GPU-1\n"}))
    assert (identity.digest_hardware(make_host({place: other})) == digest) is is_same


def test_computation_checks_return_their_known_results():
    assert (cpu.hash_test_block(), cpu.hash_modular_power(), cpu.compute_logistic_orbit()) == (
        cpu.EXPECTED_DIGEST,
        cpu.EXPECTED_POWER,
        cpu.EXPECTED_ORBIT,
    )


def test_wrong_computation_result_is_counted(monkeypatch):
    monkeypatch.setattr(cpu, "EXPECTED_ORBIT", "0x1.0p-1")
    result = cpu.solve_known_problems(0.0)
    assert (result["rounds"], result["wrong"]) == (1, 1)


@pytest.mark.parametrize("block", [0, 3])
def test_flipped_memory_bit_is_detected(block):
    class Flipping(bytearray):
        """Memory whose one cell forgets: a fake of a bad chip."""

        def __getitem__(self, key):
            value = super().__getitem__(key)
            return value if key.start != block * memory.MIB else b"\x01" + value[1:]

    area = Flipping(4 * memory.MIB)
    assert memory.write_and_count_wrong_blocks(area, [b"\x55" * memory.MIB] * 4) == 1


def test_memory_address_errors_are_detected():
    area = bytearray(4 * memory.MIB)
    wrong_count = memory.write_and_verify_patterns(memoryview(area), 4)
    assert wrong_count == {"00": 0, "ff": 0, "55": 0, "aa": 0, "address": 0}
    assert memory.build_unique_memory_block(1) != memory.build_unique_memory_block(2)


def test_memory_error_counters_are_read(make_host):
    files = {
        "/sys/devices/system/edac/mc/mc0/ce_count": "3\n",
        "/sys/devices/system/edac/mc/mc0/ue_count": "1\n",
    }
    assert memory.read_edac_error_counts(make_host(files)) == {"mc0": {"ce": 3, "ue": 1}}


def test_scratch_file_is_verified_and_removed(tmp_path):
    facts = storage.write_and_verify_scratch_file(str(tmp_path), 3)
    assert (facts["scratch_mib"], facts["wrong_mib"]) == (3, 0)
    assert facts["write_mb_per_s"] > 0
    assert list(tmp_path.iterdir()) == []


def test_stale_read_is_detected(tmp_path, monkeypatch):
    monkeypatch.setattr(
        storage, "time_scratch_write", lambda descriptor, mib: os.truncate(descriptor, mib << 20) or 1.0
    )
    assert storage.write_and_verify_scratch_file(str(tmp_path), 2)["wrong_mib"] == 2


def test_missing_scratch_folder_is_not_a_full_disk(make_host, tmp_path):
    """A wrong parameter must not make a healthy node faulty."""
    result = storage.measure_host(make_host(scratch=str(tmp_path / "absent")))
    record = {"name": "storage", "status": result.status, "reason": result.reason, "raw": result.raw}
    judged = judge_check(record, select_thresholds("cloud_vm"), "", rehearsal=False)
    assert judged.outcome == "not_run"
    assert "there is no folder" in judged.reason
    assert "free_share" in result.raw["root"]  # the root file system is judged all the same


def test_failed_write_is_recorded_as_a_finding(tmp_path, monkeypatch):
    def refuse(descriptor, mib):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(storage, "time_scratch_write", refuse)
    assert storage.write_and_verify_scratch_file(str(tmp_path), 1)["write_error"] == "ENOSPC"


def test_read_only_root_is_detected():
    table = storage.parse_mounts(
        "overlay / overlay rw 0 0\n/dev/nvme0n1p2 / ext4 ro,relatime 0 0\ntmpfs /run tmpfs rw 0 0\n"
    )
    assert storage.is_mounted_read_only(storage.find_mount("/", table)) is True
    assert storage.find_mount("/run", table)["type"] == "tmpfs"


def test_default_route_gives_interface_and_gateway(make_host):
    assert network.parse_default_route(ROUTE) == ("eth1", "198.18.0.1")
    assert network.choose_main_interface(make_host({"/proc/net/route": ROUTE})) == "eth1"


def test_first_active_link_is_used_without_a_default_route(make_host):
    files = {"/sys/class/net/eth0/operstate": "down\n", "/sys/class/net/host0/operstate": "up\n"}
    assert (
        network.choose_main_interface(make_host({**files, "/sys/class/net/lo/operstate": "unknown"}))
        == "host0"
    )


def test_refused_connection_counts_as_a_round_trip_and_a_timeout_as_a_loss(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert network.measure_round_trips("127.0.0.1", port, 3)["lost"] == 0

    def silence(address, timeout):
        raise TimeoutError

    monkeypatch.setattr(socket, "create_connection", silence)
    assert network.measure_round_trips("127.0.0.1", port, 9) == {
        "sent": 2,
        "lost": 2,
        "median_ms": None,
        "worst_ms": None,
    }


def test_throughput_to_a_listening_peer_is_measured(make_host):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        peer = threading.Thread(target=network_stream.receive_from_senders, args=(listener, 1.0), daemon=True)
        peer.start()
        facts = network.measure_throughput(make_host(peer_port=port, network_seconds=0.1), "127.0.0.1")
        peer.join()
    assert facts["method"] == "built-in sink"
    assert facts["mbit"] > 1


def test_throughput_to_an_absent_peer_is_an_error(make_host):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert "error" in network.measure_throughput(make_host(peer_port=port, network_seconds=0.1), "127.0.0.1")


def test_iperf3_report_is_parsed(make_host):
    line = "iperf3 -c 192.0.2.7 -p 5201 -t 1 -J"
    report = '{"end": {"sum_received": {"bits_per_second": 941000000.0}}}'
    host = make_host(tools={line: CommandOutput(0, report, "")}, iperf3_port=5201, network_seconds=1.0)
    assert network.measure_throughput(host, "192.0.2.7") == {"method": "iperf3", "mbit": 941.0}


def test_iperf3_connection_failure_is_reported(make_host):
    answer = CommandOutput(1, '{"error": "unable to connect"}', "")
    host = make_host(
        tools={"iperf3 -c 192.0.2.7 -p 5201 -t 1 -J": answer}, iperf3_port=5201, network_seconds=1.0
    )
    assert "unable" in network.measure_throughput(host, "192.0.2.7")["error"]


def test_fake_tool_is_marked(tmp_path):
    tool = tmp_path / "vcgencmd"
    tool.write_text("#!/bin/sh\n# FAKE vcgencmd\necho throttled=0x0\n")
    tool.chmod(0o755)
    host = HostAccess(
        which=lambda _name: str(tool), run=lambda argv, timeout: run_command([str(tool), *argv[1:]], timeout)
    )
    assert pi_throttled.measure_host(host).raw["fake"] is True


def gpu_files(vendor="0x10de"):
    base = "/sys/bus/pci/devices/0000:18:00.0"
    return {f"{base}/vendor": vendor, f"{base}/class": "0x030200", f"{base}/device": "0x67ef"}


def test_amd_gpu_is_read_with_its_driver(make_host, tmp_path):
    host = make_host(gpu_files("0x1002"))
    device = tmp_path / "sys/bus/pci/devices/0000:18:00.0"
    driver = tmp_path / "sys/bus/pci/drivers/amdgpu"
    driver.mkdir(parents=True)
    (driver / "bind").write_text("")
    (device / "driver").symlink_to(driver)
    (facts,) = gpu_amd.measure_host(host).raw["devices"]
    assert (facts["device"], facts["driver"]) == ("0x67ef", "amdgpu")


@pytest.mark.parametrize(
    ("job", "limit_s", "message"),
    [
        (lambda: time.sleep(600), 0.5, "time limit"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), 60, "signal 9"),
        (lambda: 1 / 0, 60, "ZeroDivisionError"),
        (lambda: os._exit(3), 60, "exit 3"),
        (object, 60, "exit 1"),
    ],
)
def test_exception_in_a_check_is_recorded_as_an_error(job, limit_s, message):
    assert message in workers.run_job_with_deadline(job, limit_s)["error"]


def test_workers_run_in_parallel():
    meeting = multiprocessing.get_context("fork").Barrier(3)
    answers = workers.run_jobs_in_parallel(lambda index: [meeting.wait(60), index][1], 3, 60.0)
    assert [answer["value"] for answer in answers] == [0, 1, 2]


def test_hanging_program_is_stopped_after_its_timeout():
    assert run_command(["sleep", "30"], 0.1).code == 124
    assert run_command(["no-such-program-here"], 1).code == 127


@pytest.mark.parametrize(("arguments", "seconds"), [(20, "20s"), (0.2, "1s")])
def test_stress_ng_verifies_results_on_every_core(make_host, arguments, seconds):
    line = f"stress-ng --verbose --cpu 0 --verify --metrics-brief --timeout {seconds}"
    host = make_host(tools={line: CommandOutput(2, "x" * 3000, "cpu: 1 of 3 verifications failed")})
    result = stress_ng.run_stress_ng(
        HostAccess(params={"stress_ng_seconds": arguments}, run=host.run, which=host.which), "--cpu", "0"
    )
    assert (result["ran"], result["code"], len(result["text"])) == (True, 2, 2000)
    assert result["text"].endswith("cpu: 1 of 3 verifications failed")


def test_stress_ng_timeout_is_30_seconds_longer_than_its_run(make_host):
    limits = []

    def run(argv, timeout):
        limits.append(timeout)
        return CommandOutput(0, "", "")

    stress_ng.run_stress_ng(HostAccess(params={"stress_ng_seconds": 60}, run=run, which=lambda tool: tool))
    assert limits == [90]
    assert stress_ng.run_stress_ng(make_host())["reason"] == "not requested (stress_ng_seconds)"
    assert stress_ng.run_stress_ng(make_host(stress_ng_seconds=5))["reason"] == "stress-ng is not installed"


FIO = (
    '{"fio version": "fio-3.33", "jobs": [{"error": 5, "read": {"iops": 100.5, "total_ios": 7},'
    ' "write": {"iops": 50.5, "total_ios": 9, "clat_ns": {"max": 8, "percentile": {"99.000000": 6}}}}]}'
)


def test_fio_bypasses_the_page_cache_and_removes_its_file(tmp_path):
    calls = []

    def run(argv, timeout):
        calls.append((argv, timeout))
        (tmp_path / f".gpufleet-fio-{os.getpid()}").write_text("x")
        return CommandOutput(1, FIO, "e" * 400)

    host = HostAccess(params={"fio_seconds": 2.5}, run=run, which=lambda tool: tool)
    result = fio.run_fio(host, str(tmp_path))
    assert result == {
        "ran": True, "code": 1, "version": "fio-3.33", "error_code": 5, "read_iops": 100.5, "write_iops": 50.5,
        "read_ios": 7, "written_ios": 9, "write_p99_ns": 6, "write_worst_ns": 8, "error": "e" * 300,
    }  # fmt: skip
    ((argv, timeout),) = calls
    assert (argv[0], timeout) == ("fio", 62.5)
    assert {
        "--direct=1",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--runtime=2.5",
        "--output-format=json",
    } < set(argv)
    assert f"--filename={tmp_path}/.gpufleet-fio-{os.getpid()}" in argv
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "{}", '{"jobs": []}', '{"jobs": [{"error": 0}]}', "[]"])
def test_incomplete_fio_report_is_recorded_as_text(text):
    assert fio.parse_fio_report(text) == {"text": text}


def test_fio_runs_only_if_requested_and_installed(make_host, tmp_path):
    assert fio.run_fio(make_host(), "x") == {"ran": False, "reason": "not requested (fio_seconds)"}
    assert fio.run_fio(make_host(fio_seconds=1), "x") == {"ran": False, "reason": "fio is not installed"}
    plain = storage.measure_host(
        make_host({"/proc/mounts": "/dev/x / ext4 ro 0 0\n"}, scratch=str(tmp_path), storage_mib=1)
    )
    assert plain.raw["fio"]["reason"] == "not requested (fio_seconds)"
    assert (plain.raw["root"]["type"], plain.raw["root"]["read_only"]) == ("ext4", True)
    assert plain.raw["scratch"] == {"folder": str(tmp_path), "type": "ext4", "medium": None}
    assert plain.raw["scratch_mib"] == 1


def test_disk_read_method_is_recorded(tmp_path, monkeypatch):
    direct = getattr(os, "O_DIRECT", 0)
    real = os.open

    def refuse(path, flags, *more):
        if flags & direct:
            raise OSError(22, "Invalid argument")
        return real(path, flags, *more)

    descriptor = storage.open_unnamed_scratch_file(str(tmp_path))
    dropped = []
    monkeypatch.setattr(os, "posix_fadvise", lambda *arguments: dropped.append(arguments))
    try:
        monkeypatch.setattr(os, "open", lambda path, flags, *more: real(path, flags & ~direct, *more))
        reader, method = storage.reopen_without_page_cache(descriptor)
        os.close(reader)
        assert (method, dropped) == ("direct", [])
        monkeypatch.setattr(os, "open", refuse)
        reader, method = storage.reopen_without_page_cache(descriptor)
        os.close(reader)
        assert method == "buffered"
        assert dropped == [(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)]
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(
    ("device", "place", "files", "medium"),
    [
        ("/dev/mmcblk0p2", "platform/soc/mmc0/mmc0:0001/block/mmcblk0/mmcblk0p2", {"../device/type": "MMC"}, "emmc"),
        ("/dev/mmcblk1p2", "platform/soc/mmc1/mmc1:aaaa/block/mmcblk1/mmcblk1p2", {"../device/type": "SD"}, "sd"),
        ("/dev/nvme0n1p2", "pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1/nvme0n1p2", {}, "nvme"),
        ("/dev/sda2", "pci0000:00/usb2/2-1/2-1:1.0/host0/target0:0:0/0:0:0:0/block/sda/sda2", {}, "usb"),
        ("/dev/sdb1", "pci0000:00/0000:00:17.0/ata1/host1/target1:0:0/1:0:0:0/block/sdb/sdb1", {}, "disk"),
    ],
)  # fmt: skip
def test_medium_of_the_scratch_folder_is_read(tmp_path, device, place, files, medium):
    folder = tmp_path / "sys/devices" / place
    folder.mkdir(parents=True)
    (tmp_path / "sys/class/block").mkdir(parents=True)
    (tmp_path / "sys/class/block" / folder.name).symlink_to(folder)
    for name, text in files.items():
        (folder / name).parent.resolve().mkdir(exist_ok=True)
        (folder / name).resolve().write_text(f"{text}\n")
    host = HostAccess(root=str(tmp_path))
    assert storage.find_medium(host, "/no such folder", {"device": device, "type": "ext4"}) == medium


def test_encrypted_drive_is_on_what_is_below_it(tmp_path):
    below, above = (
        tmp_path / "sys/devices" / place for place in ("pci/nvme/nvme0/nvme0n1", "virtual/block/dm-0")
    )
    below.mkdir(parents=True)
    (above / "slaves").mkdir(parents=True)
    (above / "slaves/nvme0n1").symlink_to(below)
    (tmp_path / "sys/class/block").mkdir(parents=True)
    (tmp_path / "sys/class/block/dm-0").symlink_to(above)
    host = HostAccess(root=str(tmp_path))
    assert storage.find_medium(host, "/no such folder", {"device": "/dev/dm-0", "type": "xfs"}) == "nvme"
    assert (
        storage.find_medium(host, "/no such folder", {"device": "10.0.0.1:/root", "type": "nfs4"})
        == "network"
    )
    assert storage.find_medium(host, "/no such folder", {}) is None


def test_memory_modules_are_read_with_their_labels(make_host):
    base = "/sys/devices/system/edac/mc/mc1/dimm3"
    files = {
        f"{base}/dimm_label": "CPU1_DIMM_B2\n",
        f"{base}/dimm_ce_count": "7\n",
        f"{base}/dimm_ue_count": "0\n",
    }
    module = {"name": "mc1/dimm3", "label": "CPU1_DIMM_B2", "ce": 7, "ue": 0}
    assert memory.read_dimm_error_counts(make_host(files)) == [module]
