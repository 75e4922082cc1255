"""Test a real first boot: Debian's cloud-init reads an exported seed and configures the host.

cloud-init comes from Debian through the lab's gateway. Nothing of it is a fake; only the disk image is, because
a rehearsed host has its root file system already.
"""

from __future__ import annotations

import base64
import subprocess
import time

import pytest

from gpufleet.fleet import Rack
from gpufleet.nodes import first_boot
from gpufleet.operations import export

SEED = "/var/lib/cloud/seed/nocloud"
INSTALL = "apt-get -qq install -y --no-install-recommends cloud-init >/dev/null 2>&1"
DEADLINE_SECONDS = 600


class FreshHost:
    """A host before its first boot, with the host key of the export."""

    def __init__(self, lab, folder):
        self.lab, self.known_hosts = lab, folder / "known_hosts"
        lab.up({"fresh": {"kind": "blades"}})
        self.host, self.address = lab.host("fresh"), lab.address("fresh")
        self.key = (lab.home / "ssh/id_ed25519.pub").read_text().strip()
        rack = self.rack()
        seed = first_boot.build_first_boot_files(
            rack, rack.nodes, [self.key], lambda node: export.ensure_ssh_host_key(folder / "keys", node)
        )
        self.seed = seed.seeds[0]
        self.known_hosts.write_text("\n".join(seed.known_hosts_lines()) + "\n")

    def rack(self):
        network = self.address.rpartition(".")[0]
        boot = {
            "user": "ops",
            "timezone": "Europe/Berlin",
            "gateway": f"{network}.1",
            "dns": [f"{network}.1"],
        }
        boot |= {"ssh": {"authorized_keys": [self.key]}, "interface": "eth0"}
        boot["image"] = {"url": "https://example.org/debian.img", "sha256": "0" * 64, "family": "debian"}
        nodes = [{"name": "blade07", "slot": 7, "address": self.address}]
        names = {"name": "r1", "kind": "blades", "site": "lab", "machine": "Compute Blade CM4 8GB"}
        rack_fields = {"plugin": "gpufleet.fleet.rack", **names, "network": {"cidr": f"{network}.0/24"}}
        return Rack.model_validate({**rack_fields, "nodes": nodes, "boot": boot})

    def prepare(self):
        """Put the seed where Debian looks for it, as the writer of a disk does."""
        self.host.check_output(INSTALL)
        self.host.check_output(f"mkdir -p {SEED}")
        for name in ("user-data", "meta-data", "network-config"):
            text = base64.b64encode(self.seed.files[name].encode()).decode()
            self.host.check_output(f"echo {text} | base64 -d >{SEED}/{name}")

    def ssh(self, command):
        """Log in as the new user; only the exported host key is believed."""
        strict = ["-o", "StrictHostKeyChecking=yes", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"]
        files = [
            "-F",
            "none",
            "-i",
            self.lab.home / "ssh/id_ed25519",
            "-o",
            f"UserKnownHostsFile={self.known_hosts}",
        ]
        command_line = ["ssh", *files, *strict, f"ops@{self.address}", command]
        return subprocess.run(command_line, capture_output=True, text=True, timeout=600, check=False)

    def restart(self):
        """Restart, and wait until cloud-init reports its end."""
        self.host.run("systemctl reboot")
        deadline = time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < deadline:
            result = self.ssh("cloud-init status --wait")
            if "status: done" in result.stdout:
                return
            time.sleep(1)
        pytest.fail(f"no first boot: {result.stdout}{result.stderr}")

    def read(self, command):
        result = self.ssh(command)
        assert result.returncode == 0, result.stderr
        return result.stdout.strip()


@pytest.fixture(scope="module")
def fresh(make_lab, tmp_path_factory):
    """Give the host after its first boot."""
    fresh_host = FreshHost(make_lab("first-boot"), tmp_path_factory.mktemp("export"))
    fresh_host.prepare()
    fresh_host.schema = fresh_host.host.run(f"cloud-init schema --config-file {SEED}/user-data")
    fresh_host.restart()
    return fresh_host


def test_exported_files_match_the_schema_of_cloud_init(fresh):
    assert fresh.schema.stdout.startswith("Valid cloud-config"), fresh.schema.stderr
    assert fresh.schema.rc == 0


def test_node_has_the_name_and_place_of_its_slot(fresh):
    assert fresh.read("hostname; cat /etc/hostname").split() == ["blade07", "blade07"]
    assert '"slot": 7' in fresh.read("cat /etc/gpufleet/node.json")
    assert fresh.read("readlink /etc/localtime").endswith("Europe/Berlin")


def test_declared_operators_can_log_in_but_not_by_password(fresh):
    assert fresh.read("id -un; sudo -n id -un").split() == ["ops", "root"]
    assert fresh.read("sudo passwd -S ops").split()[1] == "L"
    assert "passwordauthentication no" in fresh.read("sudo sshd -T")


def test_host_key_is_the_exported_one_and_its_copy_is_removed(fresh):
    # Every login above believed the exported key alone.
    assert fresh.seed.public_host_key.split()[1] in fresh.read("sudo cat /etc/ssh/ssh_host_ed25519_key.pub")
    seed_text = fresh.read(f"sudo cat {SEED}/user-data")
    assert "PRIVATE KEY" not in seed_text
    assert "hostname: blade07" in seed_text


def test_network_file_has_the_address_of_the_slot(fresh):
    network_file = fresh.read("cat /etc/systemd/network/10-cloud-init-eth0.network")
    assert f"Address={fresh.address}/24" in network_file
    assert "DHCP=no" in network_file


def test_cloud_init_reports_no_warning(fresh):
    assert "Invalid cloud-config" not in fresh.read("sudo cat /var/log/cloud-init.log")
