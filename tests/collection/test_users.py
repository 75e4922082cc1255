"""The command line that brings a user to the requested state."""

from __future__ import annotations

import pwd

import pytest

from ansible_collections.gpufleet.fleet.plugins.module_utils import users

ADA = pwd.struct_passwd(("ada", "x", 1000, 1000, "Ada", "/home/ada", "/bin/bash"))


@pytest.fixture
def accounts(monkeypatch):
    """Give the host's accounts: name to entry."""
    known = {}
    monkeypatch.setattr(users, "find_user_account", known.get)
    return known


def entry(**options):
    plain = {"comment": None, "shell": None, "state": "present"}
    return {"name": "ada", "authorized_keys": [], "revoked_keys": [], **plain, **options}


@pytest.mark.parametrize(
    ("options", "command"),
    [
        ({}, ["useradd", "-m", "ada"]),
        ({"comment": "Ada"}, ["useradd", "-m", "-c", "Ada", "ada"]),
        ({"shell": "/bin/sh"}, ["useradd", "-m", "-s", "/bin/sh", "ada"]),
        ({"state": "absent"}, None),
    ],
)
def test_new_user_is_created(accounts, options, command):
    assert users.build_user_command(entry(**options)) == command


@pytest.mark.parametrize(
    ("options", "command"),
    [
        ({}, None),
        ({"comment": "Ada", "shell": "/bin/bash"}, None),
        ({"comment": "Ada L."}, ["usermod", "-c", "Ada L.", "ada"]),
        ({"shell": "/bin/sh"}, ["usermod", "-s", "/bin/sh", "ada"]),
        ({"state": "absent"}, ["userdel", "ada"]),
    ],
)
def test_only_changed_attributes_of_an_existing_user_are_updated(accounts, options, command):
    accounts["ada"] = ADA
    assert users.build_user_command(entry(**options)) == command
