"""Test a rack of booted hosts: identity, host key and requested fault of each."""

from __future__ import annotations

from pathlib import Path

import pytest

SOUND, NO_SSHD, FULL, UNDERVOLTED = (f"blades-poc/{slot}" for slot in range(1, 5))
ANSWERING = (SOUND, FULL, UNDERVOLTED)


def test_every_host_runs_and_responds_unless_its_fault_prevents_it(faulty_rack):
    assert all(host.running for host in faulty_rack.status.values())
    assert {p for p, host in faulty_rack.status.items() if host.ssh_answers} == set(ANSWERING)


def test_progress_is_reported(faulty_rack):
    assert "hosts: starting 4" in faulty_rack.messages
    assert "hosts: 4 of 4 up" in faulty_rack.messages


@pytest.mark.parametrize("place", ANSWERING)
def test_hosts_have_their_host_key_and_name(faulty_rack, place):
    assert faulty_rack.read(place, "hostname") == f"poc-blade0{place[-1]}"


def test_host_key_of_another_host_is_refused(faulty_rack):
    alias = faulty_rack.ssh(SOUND, "true", "-o", f"HostKeyAlias={faulty_rack.address(FULL)}")
    assert alias.returncode == 255
    assert "Host key verification failed" in alias.stderr


@pytest.mark.parametrize(
    "what",
    [
        "cat /etc/machine-id",
        "tr -d '\\0' </sys/firmware/devicetree/base/serial-number",
        "cat /etc/ssh/ssh_host_*_key.pub",
        "cat /sys/class/net/eth0/address",
    ],
)
def test_each_host_has_its_own_identity(faulty_rack, what):
    answers = {faulty_rack.read(place, what) for place in ANSWERING}
    assert len(answers) == len(ANSWERING)
    assert all(answers)


def test_host_inherits_no_environment_variable(faulty_rack):
    programs = [
        pid
        for pid, _ in faulty_rack.process_ids_inside()
        if faulty_rack.name_of(pid) in ("systemd-nspawn", "systemd")
    ]
    names = {
        variable.partition("=")[0]
        for pid in programs
        for variable in Path(f"/proc/{pid}/environ").read_text().split("\0")
        if "GPUFLEET" in variable or "PYTEST" in variable or "HOME=" in variable
    }
    assert programs
    assert names <= {"HOME"}


def test_boot_has_no_failed_unit(faulty_rack):
    assert faulty_rack.read(SOUND, "systemctl is-system-running --wait") == "running"


def test_services_restart_without_delay(faulty_rack):
    assert (
        faulty_rack.read(SOUND, "timeout 60 systemctl restart ssh dbus && systemctl is-active ssh")
        == "active"
    )


def test_root_file_system_is_on_disk(faulty_rack):
    upper = faulty_rack.home / "rack/blades-poc-1/root"
    faulty_rack.read(SOUND, "echo kept >/var/tmp/mark")
    assert (upper / "var/tmp/mark").read_text() == "kept\n"


def test_healthy_host_has_a_healthy_pi(faulty_rack):
    assert faulty_rack.read(SOUND, "vcgencmd get_throttled") == "throttled=0x0"
    assert faulty_rack.read(SOUND, "vcgencmd measure_temp").startswith("temp=4")
    link = "/etc/gpufleet-rehearsal/sys/class/nvme/nvme0/device/current_link_speed"
    assert faulty_rack.read(SOUND, f"cat {link}") == "5.0 GT/s PCIe"


@pytest.mark.parametrize("tool", ["vcgencmd", "bladectl"])
def test_fake_tools_are_marked(faulty_rack, tool):
    assert "# FAKE" in faulty_rack.read(SOUND, f"sed -n 2p $(command -v {tool})")


def test_fake_tool_without_facts_fails(faulty_rack):
    facts = "/etc/gpufleet-rehearsal/pi.json"
    result = faulty_rack.ssh(
        UNDERVOLTED, f"mv {facts} /run/; vcgencmd get_throttled; r=$?; mv /run/pi.json {facts}; exit $r"
    )
    assert (result.returncode, result.stdout) == (1, "")


def test_fake_tool_refuses_unknown_arguments(faulty_rack):
    assert faulty_rack.ssh(SOUND, "vcgencmd measure_volts").returncode == 255


def test_undervoltage_fault_is_reported(faulty_rack):
    assert faulty_rack.read(UNDERVOLTED, "vcgencmd get_throttled") == "throttled=0x50005"


def test_full_disk_has_no_space_left(faulty_rack):
    assert faulty_rack.read(FULL, "df --output=avail / | tail -1") == "0"
    refused = faulty_rack.ssh(FULL, "echo text >/root/file && cat /root/file")
    assert refused.returncode != 0
    assert "No space left on device" in refused.stderr
    assert faulty_rack.read(FULL, "echo fits >/run/file; cat /run/file") == "fits"


def test_full_disk_has_space_after_the_large_file_is_moved(faulty_rack):
    faulty_rack.read(FULL, "mkdir -p /run/aside && mv /var/log/runaway-job.log /run/aside/")
    assert int(faulty_rack.read(FULL, "df --output=avail / | tail -1")) > 40_000
    faulty_rack.ssh(FULL, "mv /run/aside/runaway-job.log /var/log/; cat /dev/zero >/fill")


def test_hosts_reach_each_other_and_the_controller(faulty_rack):
    ping = "ping -q -c 1 -W 60 {}"
    faulty_rack.read(SOUND, ping.format(faulty_rack.address(NO_SSHD)))
    faulty_rack.read(SOUND, ping.format(faulty_rack.address(SOUND).rsplit(".", 1)[0] + ".1"))
