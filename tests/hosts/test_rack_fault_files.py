"""Test faults during a run: a locked apt, a full disk, a changed host key, a host that powers off."""

from __future__ import annotations

import time

from gpufleet.rehearsal import rack

ONE, TWO = "blades-poc/1", "blades-poc/2"


def test_locked_apt_small_disk_and_changed_key_are_simulated(box):
    box.up(f"faults: {{{ONE}: [apt_locked=300, disk_small=80], {TWO}: changed_host_key}}")
    refused = box.ssh(ONE, "apt-get install -y --reinstall hello")
    assert "Could not get lock /var/lib/dpkg/lock-frontend" in refused.stderr
    assert int(box.read(ONE, "df -m --output=avail / | tail -1")) in range(40, 90)
    filled = box.ssh(ONE, "head -c 90M /dev/zero >/var/tmp/installed")
    assert "No space left on device" in filled.stderr
    box.read(ONE, "rm /var/tmp/installed /var/log/runaway-job.log")
    assert int(box.read(ONE, "df -m --output=avail / | tail -1")) > 200
    strange = box.ssh(TWO, "true")
    assert (strange.returncode, "Host key verification failed" in strange.stderr) == (255, True)
    box.up()
    assert box.read(TWO, "hostname") == "poc-blade02"
    assert box.ssh(ONE, "fuser -s /var/lib/dpkg/lock-frontend; test -e /etc/ssh/sshrc").returncode != 0


def test_released_apt_lock_can_be_acquired(box):
    box.up(f"faults: {{{ONE}: apt_locked=1}}")
    lock = "import fcntl; fcntl.lockf(open('/var/lib/dpkg/lock-frontend', 'w'), fcntl.LOCK_EX)"
    box.read(ONE, f'timeout 30 python3 -c "{lock}"')


def test_host_stops_once_in_the_nth_session_and_boots_again(box):
    faults = f"faults: {{{ONE}: dies=3}}"
    box.up(faults)
    box.read(ONE, "echo first >/etc/mark")
    box.read(ONE, "true")
    died = box.ssh(ONE, "sleep 20; echo survived", "-o", "ServerAliveInterval=2")
    assert (died.returncode, "survived" in died.stdout) == (255, False)
    deadline = time.monotonic() + 120
    while (
        next(host.running for host in rack.collect_host_statuses(box) if host.place == ONE)
        and time.monotonic() < deadline
    ):
        time.sleep(0.1)
    hosts_again = box.up(faults)
    assert (hosts_again[ONE].running, hosts_again[TWO].running) == (True, True)
    for _ in range(4):
        assert box.read(ONE, "cat /etc/mark") == "first"


def test_rebooted_host_keeps_its_identity(box):
    box.up()
    before = box.read(ONE, "touch /etc/mark; cat /proc/sys/kernel/random/boot_id /etc/machine-id").split()
    box.ssh(ONE, "systemctl reboot")
    deadline = time.monotonic() + 120
    after = before
    while after[:1] == before[:1] and time.monotonic() < deadline:
        completed = box.ssh(ONE, "cat /proc/sys/kernel/random/boot_id /etc/machine-id && ls /etc/mark")
        after = completed.stdout.split() if completed.returncode == 0 else before
        time.sleep(0.1)
    assert (after[0] != before[0], after[1:]) == (True, [before[1], "/etc/mark"])
    assert all(host.running for host in rack.collect_host_statuses(box))
