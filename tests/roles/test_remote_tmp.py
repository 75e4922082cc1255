"""Test where Ansible puts files on a host: in a private folder of the login."""

from __future__ import annotations

import pytest

COPY = """
- name: Copy a file
  hosts: all
  gather_facts: false
  become: true
  tasks:
    - name: Copy
      ansible.builtin.copy: {content: "x", dest: /etc/copied, mode: "0600"}
"""
OWN = "/home/ada/.ansible/tmp"
# Users that a host has: an operator whom Ansible logs in as, and somebody else.
USERS = """set -e
for user in ada eve; do useradd --create-home --shell /bin/sh $user; done
echo 'ada ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/ada
install -d -m 700 -o ada -g ada /home/ada/.ssh
install -m 600 -o ada -g ada /root/.ssh/authorized_keys /home/ada/.ssh/authorized_keys
"""
PREPARED = {
    "of another user": f"install -d -m 700 -o eve -g eve {OWN}",
    "open to everybody": f"install -d -m 777 -o ada -g ada {OWN}",
    "open to its group": f"install -d -m 770 -o ada -g eve {OWN}",
    "link": f"install -d -m 777 -o eve -g eve /dev/shm/eve; ln -s /dev/shm/eve {OWN}",
}


@pytest.fixture(scope="module")
def host(make_lab):
    lab = make_lab("private", reads_package_lists=False)
    lab.up({"one": {}})
    lab.host("one").check_output(USERS)
    return lab


def as_ada(lab):
    lab.host("one").check_output("rm -f /etc/copied")
    return lab.run(COPY, extra_vars={"ansible_user": "ada"})


def test_login_uses_its_own_private_folder(host):
    result = as_ada(host)
    assert result.rc == 0, result.stdout
    first_host = host.host("one")
    assert first_host.check_output(f"stat -c '%a %U' {OWN}") == "700 ada"
    assert first_host.file("/etc/copied").content_string == "x"
    assert first_host.check_output("find /dev/shm /tmp /var/tmp -name '*ansible*'") == ""


@pytest.mark.parametrize("kind", PREPARED)
def test_folder_prepared_by_another_login_is_refused_before_anything_runs(host, kind):
    first_host = host.host("one")
    first_host.check_output(
        f"rm -rf /home/ada/.ansible; install -d -o ada -g ada /home/ada/.ansible; {PREPARED[kind]}"
    )
    result = as_ada(host)
    assert result.rc != 0
    refused = result.failure_text("one").partition("gpufleet: the temporary folder is refused: ")[2]
    assert OWN in refused, result.failure_text("one")
    assert not first_host.file("/etc/copied").exists
    assert first_host.check_output(f"find {OWN}/ -mindepth 1") == ""


def test_files_under_the_former_name_are_not_used(host):
    first_host = host.host("one")
    first_host.check_output("rm -rf /home/ada/.ansible; install -d -m 777 -o eve -g eve /dev/shm/ansible-ada")
    result = as_ada(host)
    assert result.rc == 0, result.stdout
    assert first_host.check_output("find /dev/shm/ansible-ada -mindepth 1") == ""


def test_folder_of_the_root_user_is_in_memory(host):
    result = host.run(COPY)
    assert result.rc == 0, result.stdout
    assert host.host("one").check_output("stat -c '%a %U' /run/ansible") == "700 root"
