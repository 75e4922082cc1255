"""Test what needs two hosts: restarts in batches, equal drivers, frame sizes; and chrony.

One lab of two servers with fake cards. ifupdown keeps the first one's interface; on the second nothing does,
which is also what udev's link files are for (no udev runs in a container, but it can be asked to read them).
"""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gpufleet.nodes import NodeIdentity, NodeObservation, Registry

PLAYBOOKS = Path(__file__).parents[2] / "playbooks"
ONE, TWO = "gpu01", "gpu02"
CARDS = [{"model": "H100 SXM5 80GB", "count": 8}]
OLD, NEW = "570.172.08", "580.126.20"
INSTALL = "DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends"
DRIVER = INSTALL + " nvidia-open={0}-1 nvidia-kernel-open-dkms={0}-1 nvidia-driver-cuda={0}-1 {1}"
HOLD = "; apt-mark hold nvidia-open"
UNIT = """printf '[Service]\\nType=oneshot\\nExecStart={does}\\n[Install]\\nWantedBy=multi-user.target\\n' \
  >/etc/systemd/system/{name}.service && systemctl enable --quiet {name}.service"""
COUNT = UNIT.format(name="counts", does='/bin/sh -c "echo >>/var/lib/starts"')
BREAK = UNIT.format(name="breaks", does="/bin/false")
# The address may be there or not when ifup runs: a link outlives its host's restart, and ifdown takes addresses away.
IFUPDOWN = """; printf 'auto eth0\\niface eth0 inet manual\\n  up ip address replace {0}/24 dev eth0\\n  up \
ip route replace default via {1}\\n' >/etc/network/interfaces.d/eth0; ifup --all"""
NETWORK = """---
- name: Network and clock
  hosts: all
  gather_facts: false
  become: true
  vars:
    network_mtu: {eth0: 9000}
    network_jumbo_peers: >-
      {{ groups.all | difference([inventory_hostname]) | map('extract', hostvars, 'ansible_host') }}
    time_daemon: "{{ 'chrony' if inventory_hostname == 'gpu01' else 'unmanaged' }}"
  tasks:
    - name: Network
      ansible.builtin.import_role:
        name: gpufleet.fleet.network
    - name: Clock
      ansible.builtin.import_role:
        name: gpufleet.fleet.time
    - name: Show what was not applied
      ansible.builtin.debug:
        msg: "{{ network_not_applied | combine(time_not_applied) }}"
"""


@pytest.fixture(scope="module")
def two_hosts(make_lab):
    """Give the lab: the first host with the older driver and ifupdown, both in the registry as of one template."""
    lab = make_lab("pair")
    lab.up({name: {"kind": "servers", "accelerators": CARDS} for name in (ONE, TWO)})
    first_address = lab.address(ONE)
    scripts = {
        ONE: DRIVER.format(OLD, "ifupdown")
        + HOLD
        + IFUPDOWN.format(first_address, f"{first_address.rpartition('.')[0]}.1"),
        TWO: DRIVER.format(NEW, "") + HOLD,
    }
    with ThreadPoolExecutor() as both:
        list(both.map(lambda name: lab.host(name).check_output(scripts[name]), scripts))
    with Registry(lab.env()["GPUFLEET_DATABASE_URL"]) as registry:
        for slot, name in enumerate((ONE, TWO), start=1):
            declared = {"kind": "gpu_server", "template": "train", "accelerators": CARDS}
            place = NodeIdentity(rack="servers-1", slot=str(slot))
            registry.apply_observation(
                NodeObservation(
                    "rack:servers-1", name, place, declared=declared, observed_at=datetime.now(UTC)
                )
            )
    return lab


# Network and time


@pytest.fixture(scope="module")
def network(two_hosts):
    """Give the play's runs: in check mode, for real, again; and what check mode left behind."""
    before = snapshots(two_hosts)
    check = two_hosts.run(NETWORK, check=True)
    changed_files = [old ^ new for old, new in zip(before, snapshots(two_hosts), strict=True)]
    return {
        "check": check,
        "left": changed_files,
        "first": two_hosts.run(NETWORK),
        "second": two_hosts.run(NETWORK),
    }


def snapshots(lab):
    with ThreadPoolExecutor() as both:
        return list(both.map(lab.snapshot, (ONE, TWO)))


def not_applied(run, name):
    return next(
        result.output["msg"] for result in run.results_of(name) if result.task == "Show what was not applied"
    )


def mtu(lab, name):
    return json.loads(lab.host(name).check_output("ip -json link show eth0"))[0]["mtu"]


@pytest.mark.parametrize("name", [ONE, TWO])
def test_network_and_clock_are_configured_once(network, name):
    assert [network[run_name].failure_text(name) for run_name in ("check", "first", "second")] == [None] * 3
    assert network["left"] == [set(), set()]
    assert network["check"].changed_tasks(name) == network["first"].changed_tasks(name) != []
    assert network["second"].changed_tasks(name) == []


def test_frame_size_is_active_and_persistent(two_hosts, network):
    assert [mtu(two_hosts, name) for name in (ONE, TWO)] == [9000, 9000]
    two_hosts.host(ONE).check_output("ip link set eth0 mtu 1500 && IFACE=eth0 run-parts /etc/network/if-up.d")
    assert mtu(two_hosts, ONE) == 9000
    assert not two_hosts.host(ONE).file("/etc/systemd/network/60-gpufleet-eth0.link").exists
    assert "mtu_kept" not in not_applied(network["second"], ONE)


def test_udev_is_configured_without_network_manager_and_reported_if_missing(two_hosts, network):
    read = "ip link set eth0 mtu 1500 && udevadm test-builtin net_setup_link /sys/class/net/eth0 2>&1"
    assert "60-gpufleet-eth0.link is applied" in two_hosts.host(TWO).check_output(read)
    assert mtu(two_hosts, TWO) == 9000
    reason = not_applied(network["second"], TWO)["mtu_kept"]
    assert reason == "networkd brings up no interface of this host: its MTU lasts until it restarts"


def controller_links(lab):
    """Return the controller's end of each host's cable."""
    names = {
        link["ifindex"]: link["ifname"]
        for link in json.loads(subprocess.check_output(["ip", "-json", "link"]))
    }
    command = "ip -json link show eth0"
    return {
        name: names[json.loads(lab.host(name).check_output(command))[0]["link_index"]] for name in (ONE, TWO)
    }


def test_switch_that_drops_large_frames_is_reported(two_hosts, network):
    lost = "frames of 9000 bytes are lost, those of 1280 pass"
    for name, other in ((ONE, TWO), (TWO, ONE)):
        assert not_applied(network["second"], name)["frames"] == {two_hosts.address(other): lost}
    link_ends = controller_links(two_hosts)
    for end in link_ends.values():
        subprocess.run(["ip", "link", "set", "dev", end, "mtu", "9000"], check=True)
    wide = two_hosts.run(NETWORK, tags="network")
    for name, other in ((ONE, TWO), (TWO, ONE)):
        sent = next(result.output for result in wide.results_of(name) if "send full frames" in result.task)
        assert sent["peers"] == {two_hosts.address(other): "passes"}
    assert wide.changed() == 0


def test_only_chrony_sets_the_clock(two_hosts, network):
    host = two_hosts.host(ONE)
    assert host.package("chrony").is_installed
    assert not host.package("systemd-timesyncd").is_installed
    assert host.service("chrony").is_enabled
    lines = host.file("/etc/chrony/chrony.conf").content_string.splitlines()
    assert lines[1:4] == [
        "pool 2.debian.pool.ntp.org iburst",
        "driftfile /var/lib/chrony/chrony.drift",
        "makestep 1 3",
    ]
    host.check_output("chronyd -p -f /etc/chrony/chrony.conf")


def test_container_reports_why_it_does_not_set_the_clock(network):
    reason = not_applied(network["second"], ONE)["time"]
    assert reason == "does not run: its start condition is not met (ConditionCapability=CAP_SYS_TIME)"


# Drivers that have to agree


def drivers(lab):
    """Ask as an operator does."""
    command = [sys.executable, "-m", "gpufleet", "nodes", "drivers"]
    return subprocess.run(
        command, env=lab.env(), cwd=PLAYBOOKS.parent, capture_output=True, text=True, check=False
    )


def compare_drivers(lab):
    return lab.run(PLAYBOOKS / "driver_check.yml", extra_vars={"gpufleet_template": "train"}, records=True)


def test_different_drivers_in_a_template_are_reported_until_they_agree(two_hosts):
    run = compare_drivers(two_hosts)
    assert run.rc != 0
    assert run.failure_text(ONE) == f"Report differences: driver {OLD}; 1 of 2 in train have {NEW}"
    assert run.failure_text(TWO) is None
    differences = drivers(two_hosts)
    rows = {line.split()[0]: line for line in differences.stdout.splitlines() if line.startswith("gpu")}
    assert differences.returncode == 1, differences.stderr
    assert f"skew: driver {OLD}; 1 of 2 in train have {NEW}" in rows[ONE]
    assert "skew" not in rows[TWO]
    assert "1 of 2 nodes do not agree" in differences.stdout

    two_hosts.host(ONE).check_output(f"{DRIVER.format(NEW, '--allow-change-held-packages')}{HOLD}")
    assert compare_drivers(two_hosts).rc == 0
    differences = drivers(two_hosts)
    assert (differences.returncode, "all 2 nodes agree" in differences.stdout) == (0, True), (
        differences.stdout
    )


# Restarts


@pytest.fixture(scope="module")
def restart_lab(two_hosts):
    """Let both hosts count their starts."""
    for name in (ONE, TWO):
        two_hosts.host(name).check_output(f": >/var/lib/starts; {COUNT}")
    return two_hosts


def count_boots(lab):
    return [int(lab.host(name).check_output("wc -l </var/lib/starts")) for name in (ONE, TWO)]


def restart_hosts(lab, *due, assigned=(), **more):
    """Run the play with hosts that need a restart and busy nodes; return the restarted hosts."""
    for name in (ONE, TWO):
        lab.host(name).check_output(f"{'touch' if name in due else 'rm -f'} /run/reboot-required")
    is_busy = f"{{{{ inventory_hostname in {list(assigned)} }}}}"
    before = count_boots(lab)
    variables = {
        "gpufleet_is_busy": is_busy,
        "gpufleet_reboot_batch": 1,
        "restart_timeout_seconds": 300,
        **more,
    }
    run = lab.run(PLAYBOOKS / "reboot.yml", extra_vars=variables)
    print([(name, run.failure_text(name)) for name in (ONE, TWO)])  # pytest shows it where a test fails
    return run, [after - old for old, after in zip(before, count_boots(lab), strict=True)]


def test_hosts_that_need_a_restart_are_restarted_unless_busy(restart_lab, network):
    """The first host's frame size also has to come back with it, from what brings up its interface."""
    restart_lab.host(ONE).check_output("ip link set eth0 mtu 1500")
    run, boot_counts = restart_hosts(restart_lab, ONE, TWO, assigned=[TWO])
    assert (run.rc, boot_counts) == (0, [1, 0])
    assert mtu(restart_lab, ONE) == 9000
    assert restart_hosts(restart_lab)[1] == [0, 0]


def test_degraded_host_stops_the_run_before_the_next_batch(restart_lab):
    restart_lab.host(ONE).check_output(BREAK)
    run, boot_counts = restart_hosts(restart_lab, ONE, TWO)
    restart_lab.host(ONE).check_output("systemctl disable --quiet breaks; systemctl reset-failed")
    assert (run.rc, boot_counts) == (2, [1, 0])
    assert run.failure_text(ONE) == (
        "Fail if the host is in a worse state than before: after the restart: units failed: breaks.service. "
        "The next batch was not restarted"
    )
    assert not run.results_of(TWO, "failed")


def test_busy_hosts_are_restarted_one_at_a_time_on_request(restart_lab):
    run, boot_counts = restart_hosts(restart_lab, ONE, TWO, assigned=[TWO], gpufleet_reboot_busy=True)
    assert (run.rc, boot_counts) == (0, [1, 1])
    order = [
        (result.host, result.task.rpartition(" : ")[2]) for result in run.results if result.status == "ok"
    ]
    health = "Read the driver and the failed units, and tell the registry"
    assert order.index((ONE, health)) < order.index((TWO, "Restart the host and wait for it"))
