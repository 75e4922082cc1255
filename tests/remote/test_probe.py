"""Typed reasons from real connections on loopback: to a fake SSH server, and to things that are not SSH servers.

Real sshds are probed in tests/hosts.
"""

from __future__ import annotations

import socket

import paramiko
import pytest

from gpufleet.errors import EnvironmentFault
from gpufleet.remote.probe import ReachableHost, UnreachableHost, classify_ssh_error, probe_hosts
from ssh_server import ANSWER, listening, serving


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    generated_keys = {name: paramiko.RSAKey.generate(2048) for name in ("mine", "other", "host")}
    for name, key in generated_keys.items():
        key.write_private_key_file(str(folder / name))
    return folder, generated_keys


@pytest.fixture
def start_server(keys):
    _, generated_keys = keys

    def start(answer=ANSWER):
        return serving([generated_keys["host"]], generated_keys["mine"], answer)

    return start


@pytest.fixture
def probe_server(keys, tmp_path):
    folder, generated_keys = keys

    def run(port, key="mine", known="host", timeout=60.0):
        hosts = tmp_path / "known_hosts"
        hosts.write_text(
            f"[127.0.0.1]:{port} ssh-rsa {generated_keys[known].get_base64()}\n" if known else ""
        )
        answers = probe_hosts(
            ["127.0.0.1"], user="root", key=folder / key, known_hosts=[hosts], port=port, timeout=timeout
        )
        return answers["127.0.0.1"]

    return run


def test_responding_node_is_reachable_with_facts(start_server, probe_server):
    with start_server() as port:
        answer = probe_server(port)
    assert isinstance(answer, ReachableHost)
    assert answer.facts.serial == "10000000c8b2a3ea"


@pytest.mark.parametrize(
    ("key", "known", "reason"),
    [
        ("mine", None, "unknown_host_key"),
        ("mine", "other", "changed_host_key"),
        ("other", "host", "key_refused"),
    ],
)
def test_wrong_keys_are_classified(start_server, probe_server, key, known, reason):
    with start_server() as port:
        answer = probe_server(port, key=key, known=known)
    assert isinstance(answer, UnreachableHost)
    assert answer.reason == reason


def test_login_without_a_shell_is_classified(start_server, probe_server):
    with start_server(b"This account is not available.\n") as port:
        assert probe_server(port).reason == "no_answer"


def test_other_protocol_is_classified(probe_server):
    with listening(
        lambda connection: (connection.sendall(b"HTTP/1.1 400\r\n\r\n"), connection.close())
    ) as port:
        assert probe_server(port).reason == "protocol"


def test_silent_server_is_given_up_after_the_timeout(probe_server):
    connections = []
    with listening(connections.append) as port:
        assert probe_server(port, timeout=0.5).reason == "protocol"


def test_closed_port_is_classified_as_refused(probe_server):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert probe_server(port).reason == "refused"


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        (TimeoutError(), "timeout"),
        (socket.gaierror(-2, "Name or service not known"), "bad_address"),
        (OSError(113, "No route to host"), "no_route"),
        (EOFError(), "protocol"),
    ],
)
def test_every_connection_error_has_a_reason(trouble, reason):
    assert classify_ssh_error(trouble) == reason


def test_many_addresses_are_probed_in_parallel_and_once_each(keys, tmp_path):
    folder, _ = keys
    (tmp_path / "known").touch()
    addresses = [f"127.0.0.{n}" for n in range(1, 40)] * 2
    answers = probe_hosts(
        addresses, user="root", key=folder / "mine", known_hosts=[tmp_path / "known"], port=1, timeout=60
    )
    assert {answer.reason for answer in answers.values()} == {"refused"}
    assert len(answers) == 39


def test_missing_key_files_are_an_environment_fault(keys, tmp_path):
    folder, _ = keys
    with pytest.raises(EnvironmentFault, match="no SSH key at"):
        probe_hosts(["127.0.0.1"], user="root", key=tmp_path / "no", known_hosts=[tmp_path / "no"])
    with pytest.raises(EnvironmentFault, match="no known hosts file"):
        probe_hosts(["127.0.0.1"], user="root", key=folder / "mine", known_hosts=[tmp_path / "no"])


def test_damaged_key_is_named(tmp_path):
    (tmp_path / "key").write_text("not a key")
    with pytest.raises(EnvironmentFault, match="cannot use the SSH key"):
        probe_hosts(["127.0.0.1"], user="root", key=tmp_path / "key", known_hosts=[tmp_path / "key"])
