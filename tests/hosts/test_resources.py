"""Test the module `resources` on a booted host: a held lock, an interrupted dpkg, units, a user."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PLACE = "blades-poc/1"
PROGRAM = Path(sys.executable).with_name("ansible")
PACKAGE = """set -e
mkdir -p /tmp/p/DEBIAN
cd /tmp/p/DEBIAN
printf 'Package: gf-made\\nVersion: 1\\nArchitecture: all\\n' > control
printf 'Maintainer: a <a@example.org>\\nDescription: x\\n' >> control
dpkg-deb -b /tmp/p /tmp/gf-made.deb > /dev/null
dpkg --unpack /tmp/gf-made.deb > /dev/null
"""
HOLD = """import fcntl, os, time
file = open("/var/lib/dpkg/lock-frontend", "w")
fcntl.lockf(file, fcntl.LOCK_EX)
open("/run/held", "w").write(str(os.getpid()))
time.sleep(600)
"""
UNIT = "[Unit]\n{more}\n[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n"


class BareHost:
    """One blade, and the module run there by Ansible."""

    def __init__(self, box, env):
        self.box = box
        self.env = env | {
            "ANSIBLE_PRIVATE_KEY_FILE": str(box.home / "ssh/id_ed25519"),
            "ANSIBLE_SSH_COMMON_ARGS": f"-o UserKnownHostsFile={box.home}/ssh/known_hosts",
            "ANSIBLE_INJECT_FACT_VARS": "False",
            "ANSIBLE_PIPELINING": "1",
            "ANSIBLE_NOCOLOR": "1",
        }

    def run(self, check=False, **resources):
        command = [PROGRAM, "-i", f"{self.box.address(PLACE)},", "-u", "root", "all", "--one-line"]
        command += [
            "-m",
            "gpufleet.fleet.resources",
            "-a",
            json.dumps(resources),
            *(["--check"] if check else []),
        ]
        result = subprocess.run(
            command, env=self.env, capture_output=True, text=True, timeout=600, check=False, cwd=self.box.home
        )
        return json.loads(result.stdout.partition(" => ")[2])


@pytest.fixture
def bare_host(box, clean_env):
    box.slots = 1
    box.up()
    return BareHost(box, clean_env)


def test_packages_users_and_units_are_managed_on_a_blade(bare_host):
    check_held_lock(bare_host)
    check_interrupted_dpkg(bare_host)
    check_units(bare_host)
    check_users(bare_host)


def check_held_lock(bare):
    bare.box.read(PLACE, f"echo '{HOLD}' > /run/hold.py; nohup python3 /run/hold.py > /dev/null 2>&1 & ")
    bare.box.read(
        PLACE, "for i in $(seq 600); do [ -s /run/held ] && break; sleep 0.1; done; test -s /run/held"
    )
    outcome = bare.run(packages={"present": ["no-such-thing"], "lock_timeout_seconds": 1})
    assert "lock-frontend is still held by python3 /run/hold.py (process " in outcome["msg"]
    bare.box.read(PLACE, "kill $(cat /run/held)")


def check_interrupted_dpkg(bare):
    bare.box.read(PLACE, PACKAGE)
    outcome = bare.run(packages={"present": ["gf-made=1"]})
    assert outcome["repaired"] == ["dpkg --configure -a: gf-made is unpacked"], outcome
    second_result = bare.run(packages={"present": ["gf-made=1"], "held": ["gf-made"]})
    assert second_result["changed"]  # the hold
    assert bare.box.read(PLACE, "apt-mark showhold") == "gf-made"
    assert not bare.run(packages={"present": ["gf-made=1"], "held": ["gf-made"]})["changed"]


def check_units(bare):
    resources = {
        "files": [
            {"path": "/etc/gf.conf", "content": "1"},
            {"path": "/etc/systemd/system/gf-a.service", "content": UNIT.format(more="")},
            {
                "path": "/etc/systemd/system/gf-b.service",
                "content": UNIT.format(more="ConditionPathExists=/no/such"),
            },
        ],
        "units": [
            {"name": "gf-a.service", "enabled": True, "state": "started", "restart_on": ["/etc/gf.conf"]},
            {"name": "gf-b.service", "enabled": True, "state": "started"},
        ],
    }
    trial = bare.run(check=True, **resources)
    assert trial["changed_units"]["gf-a.service"] == ["enable", "start"]
    outcome = bare.run(**resources)
    assert outcome["changed_units"]["gf-a.service"] == ["enable", "start"]
    assert "(ConditionPathExists=/no/such)" in outcome["not_applied"]["units"]["gf-b.service"]
    assert (
        bare.box.read(PLACE, "systemctl is-enabled gf-a gf-b; systemctl is-active gf-a")
        == "enabled\nenabled\nactive"
    )
    assert not bare.run(**resources)["changed"]
    resources["files"][0]["content"] = "2"
    assert bare.run(**resources)["changed_units"] == {"gf-a.service": ["restart"]}


def check_users(bare):
    key = (bare.box.home / "ssh/id_ed25519.pub").read_text().strip()
    outcome = bare.run(users=[{"name": "ada", "shell": "/bin/sh", "authorized_keys": [key]}])
    assert outcome["changed_users"] == ["ada"]
    assert bare.box.ssh(PLACE, "id -un", "-l", "ada").stdout.strip() == "ada"
    assert not bare.run(users=[{"name": "ada", "shell": "/bin/sh", "authorized_keys": [key]}])["changed"]
    assert bare.run(users=[{"name": "ada", "state": "absent"}])["changed_users"] == ["ada"]
