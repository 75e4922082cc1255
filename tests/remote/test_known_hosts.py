"""The probe accepts the host keys that OpenSSH's own client accepts, and refuses those that it refuses."""

from __future__ import annotations

import base64
import hashlib
import hmac
import random
import shutil
import subprocess

import paramiko
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gpufleet.errors import EnvironmentFault
from gpufleet.remote.known_hosts import KnownHosts
from gpufleet.remote.probe import ReachableHost, probe_hosts
from ssh_server import serving

HOST = "127.0.0.1"
SEEDS = 60
pytestmark = pytest.mark.skipif(not shutil.which("ssh"), reason="OpenSSH's client is not installed")


def generate_ed25519(path):
    secret = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    path.write_bytes(secret)
    path.chmod(0o600)
    return paramiko.Ed25519Key.from_private_key_file(str(path))


def public(key):
    return f"{key.get_name()} {key.get_base64()}"


def hash_name(name):
    salt = hashlib.sha1(name.encode()).digest()
    digest = hmac.new(salt, name.encode(), hashlib.sha1).digest()
    return f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Serve with an Ed25519 and an RSA host key; give the words that the tables below put into lines."""
    folder = tmp_path_factory.mktemp("keys")
    login, ed25519, other, authority = (
        generate_ed25519(folder / n) for n in ("login", "host", "other", "ca")
    )
    rsa, other_rsa = paramiko.RSAKey.generate(2048), paramiko.RSAKey.generate(2048)
    with serving([ed25519, rsa], login) as port:
        yield {
            "port": port, "login": folder / "login", "at": f"[{HOST}]:{port}", "hashed": hash_name(f"[{HOST}]:{port}"),
            "hashed_bare": hash_name(HOST), "key": public(ed25519), "rsa": public(rsa), "other": public(other),
            "other_rsa": public(other_rsa), "ca": public(authority),
            "ecdsa": public(paramiko.ECDSAKey.generate()),
        }  # fmt: skip


def ssh_accepts(server, files):
    """Return whether OpenSSH's client accepts the server's key."""
    options = {
        "BatchMode": "yes", "StrictHostKeyChecking": "yes", "GlobalKnownHostsFile": "/dev/null",
        "IdentitiesOnly": "yes",        "UserKnownHostsFile": " ".join(map(str, files)), "UpdateHostKeys": "no",
    }  # fmt: skip
    chosen = [part for name, value in options.items() for part in ("-o", f"{name}={value}")]
    command = ["ssh", "-F", "none", "-v", *chosen, "-i", str(server["login"]), "-p", str(server["port"])]
    done = subprocess.run(
        [*command, f"root@{HOST}", "true"], capture_output=True, text=True, check=False, timeout=120
    )
    refused = "Host key verification failed" in done.stderr
    assert refused != ("SSH2_MSG_SERVICE_ACCEPT received" in done.stderr), done.stderr
    return not refused


def probe(server, files):
    return probe_hosts(
        [HOST], user="root", key=server["login"], known_hosts=files, port=server["port"], timeout=60
    )[HOST]


# name: the lines of the file, whether OpenSSH accepts, else the reason of ours.
TABLE = {
    "its key": ("{at} {key}", None),
    "nothing": ("", "unknown_host_key"),
    "another key": ("{at} {other}", "changed_host_key"),
    "key of another host": ("192.0.2.1 {key}", "unknown_host_key"),
    "key of another type only": ("{at} {rsa}", None),
    "stale key of another type first": ("{at} {ecdsa}\n{at} {rsa}", None),
    "wrong key of the preferred type": ("{at} {other}\n{at} {rsa}", "changed_host_key"),
    "several keys of one type": ("{at} {other}\n{at} {key}", None),
    "hashed": ("{hashed} {key}", None),
    "hashed, another key": ("{hashed} {other}", "changed_host_key"),
    "pattern": ("[127.0.0.*]:* {key}", None),
    "pattern of everything": ("* {key}", None),
    "pattern with question marks": ("[127.?.?.1]:* {key}", None),
    "pattern of others": ("*.example {key}", "unknown_host_key"),
    "negation of both forms": ("*,!{at},!127.0.0.1 {key}", "unknown_host_key"),
    "negation before": ("!127.0.0.*,!{at},* {key}", "unknown_host_key"),
    "negation of the form with a port": ("*,!{at} {key}", None),
    "negation of another": ("*,!192.0.2.1 {key}", None),
    "negation alone": ("!192.0.2.1 {key}", "unknown_host_key"),
    "list of names": ("blade01,{at},blade02 {key}", None),
    "without the port": ("127.0.0.1 {key}", None),
    "hashed without the port": ("{hashed_bare} {key}", None),
    "without the port, another key": ("127.0.0.1 {other}", "changed_host_key"),
    "another port": ("[127.0.0.1]:1 {key}", "unknown_host_key"),
    "another key at the port": ("{at} {other}\n127.0.0.1 {key}", "changed_host_key"),
    "revoked": ("{at} {key}\n@revoked {at} {key}", "revoked_host_key"),
    "revoked first": ("@revoked * {key}\n{at} {key}", "revoked_host_key"),
    "revoked alone": ("@revoked * {key}", "revoked_host_key"),
    "another key is revoked": ("@revoked * {other}\n{at} {key}", None),
    "revoked for another host": ("@revoked 192.0.2.1 {key}\n{at} {key}", None),
    "revoked without the port": ("@revoked 127.0.0.1 {key}\n127.0.0.1 {key}", "revoked_host_key"),
    "authority": ("@cert-authority * {ca}", "unknown_host_key"),
    "authority and its key": ("@cert-authority * {ca}\n{at} {key}", None),
    "its key as an authority": ("@cert-authority * {key}", "unknown_host_key"),
    "unknown marker": ("@trusted {at} {key}", "unknown_host_key"),
    "two markers": ("@revoked @cert-authority {at} {key}\n{at} {key}", None),
    "malformed lines": ("nonsense\n{at}\n{at} ssh-ed25519\n{at} ssh-ed25519 %%%\n{at} ssh-rsa AAAA\n{at} {key}", None),
    "type that does not fit": ("{at} ssh-rsa AAAAC3NzaC1lZDI1NTE5AAAAIAAA", "unknown_host_key"),
    "comments and blanks": ("# {at} {other}\n\n   \t{at}\t {key}  a comment\n", None),
    "bad hash": ("|1|AAAA|BBBB {key}\n{at} {key}", None),
    "hash in a list": ("{hashed},192.0.2.1 {key}", "unknown_host_key"),
    "carriage returns": ("{at} {key}\r\n", None),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLE)
def test_probe_and_openssh_agree(server, tmp_path, name):
    text, reason = TABLE[name]
    file = tmp_path / "known_hosts"
    file.write_text(text.format(**server) + "\n")
    answer = probe(server, [file])
    assert (None if isinstance(answer, ReachableHost) else answer.reason) == reason
    assert ssh_accepts(server, [file]) == (reason is None)


def write_random_lines(server, rng):
    markers = ["", "", "", "", "@revoked ", "@cert-authority ", "@other "]
    names = [
        "{at}",
        "{at}",
        "127.0.0.1",
        "*",
        "[127.0.0.*]:*",
        "!{at}",
        "!192.0.2.1",
        "{hashed}",
        "{hashed_bare}",
        "x",
    ]
    keys = ["{key}", "{key}", "{rsa}", "{rsa}", "{other}", "{other_rsa}", "{ca}", "ssh-rsa AAAA", ""]
    lines = []
    for _ in range(rng.randint(0, 4)):
        hosts = ",".join(rng.choice(names) for _ in range(rng.choice([1, 1, 1, 2])))
        lines.append(f"{rng.choice(markers)}{hosts} {rng.choice(keys)}")
    return "\n".join(lines).format(**server) + "\n"


def test_probe_and_openssh_agree_on_random_files(server, tmp_path):
    rng, accepted = random.Random(23), 0
    for seed in range(SEEDS):
        files = [tmp_path / "first", tmp_path / "second"]
        texts = [write_random_lines(server, rng) for _ in files]
        for file, text in zip(files, texts, strict=True):
            file.write_text(text)
        expected = ssh_accepts(server, files)
        answer = probe(server, files)
        assert isinstance(answer, ReachableHost) == expected, (seed, texts, answer)
        accepted += expected
    assert 10 < accepted < SEEDS - 10


def test_line_that_decided_is_named(server, tmp_path):
    file = tmp_path / "known_hosts"
    for text, detail in (
        ("# one\n@cert-authority {at} {ca}", f"{file}:2 names a certificate authority"),
        ("# one\n@cert-authority * {ca}", f"{file}:2 names a certificate authority"),
        ("{at} {key}\n@revoked * {key}", f"{file}:2 revokes the key"),
        ("\n{at} {other}", f"another key than {file}:2 names"),
        ("", f"its key was not found in {file}"),
    ):
        file.write_text(text.format(**server))
        assert detail in probe(server, [file]).detail


def test_every_file_counts_and_a_missing_one_is_passed_over(server, tmp_path):
    (tmp_path / "first").write_text("nonsense\n")
    (tmp_path / "second").write_text("{at} {key}\n".format(**server))
    files = [tmp_path / "none", tmp_path / "first", tmp_path / "second"]
    assert isinstance(probe(server, files), ReachableHost)
    (tmp_path / "first").write_text("@revoked * {key}\n".format(**server))
    assert probe(server, files).reason == "revoked_host_key"


def test_other_hosts_are_probed_where_one_has_an_unsupported_line(server, tmp_path):
    file = tmp_path / "known_hosts"
    file.write_text(
        "@cert-authority [127.0.0.2]:* {ca}\n[127.0.0.1]:* {key}\n@revoked x y z\n".format(**server)
    )
    answers = probe_hosts(
        [HOST, "127.0.0.2"], user="root", key=server["login"], known_hosts=[file], port=server["port"], timeout=60
    )  # fmt: skip
    assert isinstance(answers[HOST], ReachableHost)
    assert not isinstance(answers["127.0.0.2"], ReachableHost)


def test_files_that_cannot_be_read_are_an_environment_fault(tmp_path, monkeypatch):
    file = tmp_path / "known_hosts"
    file.touch()
    for files in ([tmp_path / "none"], [tmp_path], []):
        with pytest.raises(EnvironmentFault, match="no known hosts file"):
            KnownHosts(files)
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(EnvironmentFault, match="no known hosts file") as fault:
        KnownHosts([file])
    assert "can read" in str(fault.value.hint)


def test_missing_ssh_keygen_is_an_environment_fault(tmp_path, monkeypatch):
    (tmp_path / "known_hosts").touch()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFault, match="ssh-keygen not found"):
        KnownHosts([tmp_path / "known_hosts"])
