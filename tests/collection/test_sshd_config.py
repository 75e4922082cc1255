"""Test sshd's drop-in on a FAKE sshd that accepts what OpenSSH 9.2 accepts, with the messages recorded from it."""

from __future__ import annotations

import re

import pytest

from ansible_collections.gpufleet.fleet.plugins.module_utils import sshd_config
from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import HostError

# Recorded on Debian 12, 2026-11-23: sshd -t -oKEYWORD=x, and sshd -T.
FAKE = """#!/bin/sh
echo "$*" >>{log}
for argument; do
  case $argument in
    -T) echo "ciphers aes256-ctr"; echo "macs hmac-sha2-256"; exit 0 ;;
    -oCiphers=*)
      for name in $(echo "${{argument#*=}}" | tr , " "); do
        case $name in aes256-ctr|aes128-ctr) ;; *)
          echo "command-line line 0: Bad SSH2 cipher spec '${{argument#*=}}'." >&2; exit 255 ;;
        esac
      done ;;
    -oKexAlgorithms=*)
      for name in $(echo "${{argument#*=}}" | tr , " "); do
        case $name in curve25519-sha256) ;; *)
          printf 'Unsupported KEX algorithm "%s"\\n' "$name" >&2
          echo "command-line line 0: Bad SSH2 KexAlgorithms '${{argument#*=}}'." >&2; exit 255 ;;
        esac
      done ;;
  esac
done
{configuration}
"""


@pytest.fixture
def fake_sshd(tmp_path, monkeypatch):
    """Install the fake; return a function that gives the calls of it since then."""
    program, log = tmp_path / "sshd", tmp_path / "log"

    def install(configuration="exit 0"):
        program.write_text(FAKE.format(log=log, configuration=configuration))
        program.chmod(0o755)
        log.write_text("")
        return lambda: log.read_text().splitlines()

    monkeypatch.setattr(sshd_config, "SSHD", str(program))
    monkeypatch.setattr(sshd_config, "RUNTIME_FOLDER", tmp_path / "run")
    return install


def test_only_supported_algorithms_are_written_in_their_order(fake_sshd):
    fake_sshd()
    lists = {
        "Ciphers": ["aes256-ctr", "aes128-ctr"],
        "KexAlgorithms": ["mlkem768x25519-sha256", "curve25519-sha256"],
    }
    selection = sshd_config.find_supported_algorithms(lists)
    assert selection["supported"] == {
        "Ciphers": ["aes256-ctr", "aes128-ctr"],
        "KexAlgorithms": ["curve25519-sha256"],
    }
    assert selection["unsupported"] == {"KexAlgorithms": ["mlkem768x25519-sha256"]}
    text = sshd_config.render_sshd_drop_in(
        {"X11Forwarding": "no", "allowUsers": "ops"}, selection["supported"]
    )
    assert text.splitlines()[1:] == [
        "allowUsers ops",
        "X11Forwarding no",
        "Ciphers aes256-ctr,aes128-ctr",
        "KexAlgorithms curve25519-sha256",
    ]


def test_drop_in_in_place_saves_questions_to_sshd(fake_sshd):
    calls = fake_sshd()
    lists = {
        "Ciphers": ["aes256-ctr", "aes128-ctr"],
        "KexAlgorithms": ["mlkem768x25519-sha256", "curve25519-sha256"],
    }
    present = "Ciphers aes256-ctr,aes128-ctr\nKexAlgorithms curve25519-sha256\n"
    assert sshd_config.find_supported_algorithms(lists, present)["supported"]["KexAlgorithms"] == [
        "curve25519-sha256"
    ]
    assert len(calls()) == 2


def test_list_of_which_nothing_is_supported_is_refused(fake_sshd):
    fake_sshd()
    with pytest.raises(
        HostError, match="Ciphers was not changed: this host's sshd supports none of arcfour, rc4"
    ):
        sshd_config.find_supported_algorithms({"Ciphers": ["arcfour", "rc4"]})


def test_broken_configuration_of_the_host_is_not_taken_for_missing_algorithms(fake_sshd):
    fake_sshd("echo '/etc/ssh/sshd_config: line 1: Bad configuration option: Cipherss' >&2; exit 255")
    with pytest.raises(HostError, match="the host's own configuration: /etc/ssh/sshd_config: line 1: Bad"):
        sshd_config.find_supported_algorithms({"Ciphers": ["aes256-ctr"]})


def test_host_without_ssh_service_is_named_so(monkeypatch, tmp_path):
    monkeypatch.setattr(sshd_config, "RUNTIME_FOLDER", tmp_path / "run")
    monkeypatch.setattr(sshd_config, "SSHD", str(tmp_path / "sshd"))
    with pytest.raises(HostError, match="no SSH service is installed here"):
        sshd_config.find_supported_algorithms({"Ciphers": ["aes256-ctr"]})


@pytest.mark.parametrize("name", ["+aes128-cbc", "-aes*", "aes*", "a,b", "a b", "a\nPermitRootLogin yes", ""])
def test_patterns_and_lists_are_not_algorithms(fake_sshd, name):
    fake_sshd()
    with pytest.raises(HostError, match=re.escape(repr(name)) + " is not the name of an algorithm"):
        sshd_config.find_supported_algorithms({"Ciphers": ["aes256-ctr", name]})


def test_list_that_another_file_sets_first_is_reported(fake_sshd):
    fake_sshd()
    lists = {"Ciphers": ["aes256-ctr"], "MACs": ["hmac-sha2-512"]}
    assert sshd_config.find_overridden_lists(lists) == {"MACs": "another file sets it first: hmac-sha2-256"}
