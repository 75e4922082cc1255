"""Hosts and signed repositories for apt and dnf: real package managers, throw-away keys."""

from __future__ import annotations

import datetime as dt
import http.server
import importlib.util
import os
import shutil
import ssl
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

HERE = Path(__file__).parent


def _load_module(name):
    """Load a module of this folder by its path: tests are not packages and cannot be imported by name."""
    full_name = f"gpufleet_packages_{name}"
    if full_name not in sys.modules:
        spec = importlib.util.spec_from_file_location(full_name, HERE / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[full_name] = module
        spec.loader.exec_module(module)
    return sys.modules[full_name]


def pytest_collection_modifyitems(config, items):
    """Mark all tests here; leave them out where no overlay can be mounted or a program is missing."""
    missing = [
        program for program in ("dnf", "rpmbuild", "createrepo_c", "gpg") if shutil.which(program) is None
    ]
    reason = (
        "hosts need Linux"
        if sys.platform != "linux"
        else "hosts need root"
        if os.geteuid()
        else f"no program {', '.join(missing)}: gpufleet doctor --fix --tests"
        if missing
        else None
    )
    for item in (item for item in items if HERE in item.path.parents):
        item.add_marker(pytest.mark.hosts)
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))
        elif item.get_closest_marker("slow") and not config.getoption("--all-packages"):
            item.add_marker(pytest.mark.skip(reason="minutes; make packages runs it"))


@pytest.fixture(scope="session")
def make_host(tmp_path_factory):
    """Return a function that starts hosts; all are stopped at the end."""
    hosts = []

    def make(shared):
        hosts.append(_load_module("overlay").OverlayHost(tmp_path_factory.mktemp("overlay"), shared))
        return hosts[-1]

    yield make
    for host in hosts:
        host.stop()


class SigningHome:
    """A gpg home with throw-away keys."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir(mode=0o700)

    def gpg(self, *arguments, stdin=b""):
        base = ["gpg", "--homedir", self.folder, "--batch", "--quiet", "--pinentry-mode", "loopback"]
        return subprocess.run(
            [*base, "--passphrase", "", *arguments], input=stdin, capture_output=True, check=True
        ).stdout

    def create_key(self, name):
        """Create a key; return its fingerprint and its armoured public part."""
        self.gpg("--quick-generate-key", f"{name} <{name}@example.org>", "rsa2048", "sign", "never")
        lines = self.gpg("--list-keys", "--with-colons", name).decode().splitlines()
        fingerprint = next(line.split(":")[9] for line in lines if line.startswith("fpr:"))
        return fingerprint, self.gpg("--armor", "--export", fingerprint).decode()

    def clearsign(self, fingerprint, text):
        return self.gpg("--local-user", fingerprint, "--clearsign", stdin=text.encode()).decode()


@pytest.fixture(scope="session")
def signing_home(tmp_path_factory):
    home = SigningHome(tmp_path_factory.mktemp("signing") / "gnupg")
    yield home
    subprocess.run(["gpgconf", "--homedir", home.folder, "--kill", "all"], check=False)


@pytest.fixture(scope="session")
def https_server(tmp_path_factory):
    """Serve a folder over HTTPS on loopback; give the folder, the address and the file of its certificate."""
    folder = tmp_path_factory.mktemp("https")
    (folder / "www").mkdir()
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now, day = dt.datetime.now(dt.UTC), dt.timedelta(days=1)
    certificate = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(1).not_valid_before(now - day).not_valid_after(now + day)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    trusted = folder / "certificate.pem"
    trusted.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private = folder / "private.pem"
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(trusted, private)
    handler = partial(QuietHandler, directory=str(folder / "www"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield folder / "www", f"https://localhost:{server.server_address[1]}", trusted
    server.shutdown()
    thread.join()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass
