"""Test that probes use the same key, user and known hosts as Ansible and ssh."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpufleet.operations.node_probe import find_ssh_login


@pytest.mark.parametrize(
    ("environment", "user", "key"),
    [
        ({}, "root", Path.home() / ".ssh/id_ed25519"),
        ({"ANSIBLE_PRIVATE_KEY_FILE": "/keys/fleet"}, "root", Path("/keys/fleet")),
        ({"ANSIBLE_PRIVATE_KEY_FILE": ""}, "root", Path.home() / ".ssh/id_ed25519"),
        ({"ANSIBLE_REMOTE_USER": "ops"}, "ops", Path.home() / ".ssh/id_ed25519"),
        (
            {"ANSIBLE_REMOTE_USER": "ops", "ANSIBLE_PRIVATE_KEY_FILE": "/keys/fleet"},
            "ops",
            Path("/keys/fleet"),
        ),
    ],
)
def test_login_of_ansible_is_used_if_set(tmp_path, environment, user, key):
    login = find_ssh_login(environment, tmp_path)
    assert (login.user, login.key) == (user, key)


def test_known_hosts_of_a_rehearsal_take_precedence(tmp_path):
    assert [str(file) for file in find_ssh_login({}, tmp_path).known_hosts] == [
        f"{Path.home()}/.ssh/known_hosts",
        f"{Path.home()}/.ssh/known_hosts2",
        "/etc/ssh/ssh_known_hosts",
        "/etc/ssh/ssh_known_hosts2",
    ]
    local_known_hosts = tmp_path / "ssh/known_hosts"
    local_known_hosts.parent.mkdir()
    local_known_hosts.write_text("")
    assert find_ssh_login({}, tmp_path).known_hosts == (local_known_hosts,)
