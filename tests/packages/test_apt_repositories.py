"""Repositories of apt on a host: apt itself accepts what the module writes, and nothing is written for a wrong key."""

from __future__ import annotations

import hashlib
import subprocess

import pytest

SOURCE = "/etc/apt/sources.list.d/vendor.sources"
KEY = "/etc/apt/keyrings/vendor.asc"
MODULE = "gpufleet.fleet.repositories"


def build_package(folder, name, version):
    control = folder / "build" / name / "DEBIAN"
    control.mkdir(parents=True)
    fields = f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: nobody <x@example.org>\n"
    (control / "control").write_text(f"{fields}Description: empty\n")
    package = folder / f"{name}_{version}_all.deb"
    command = ["dpkg-deb", "--root-owner-group", "--build", control.parent, package]
    subprocess.run(command, check=True, capture_output=True)
    digest = hashlib.sha256(package.read_bytes()).hexdigest()
    return f"{fields}Filename: {package.name}\nSize: {package.stat().st_size}\nSHA256: {digest}\n\n"


@pytest.fixture(scope="module")
def archive(tmp_path_factory, signing_home):
    """Give a folder with a signed flat repository of apt, and fingerprint and text of its key."""
    folder = tmp_path_factory.mktemp("archive")
    fingerprint, key = signing_home.create_key("archive")
    packages = build_package(folder, "vendor-tool", "1.0")
    (folder / "Packages").write_text(packages)
    digest = hashlib.sha256(packages.encode()).hexdigest()
    release = (
        f"Origin: vendor\nDate: Sun, 22 Nov 2026 20:00:00 UTC\nSHA256:\n {digest} {len(packages)} Packages\n"
    )
    (folder / "InRelease").write_text(signing_home.clearsign(fingerprint, release))
    return folder, fingerprint, key


@pytest.fixture
def host(make_host, archive):
    host = make_host(archive[0])
    host.run("sh", "-c", "rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/* /var/lib/apt/lists/*")
    return host


@pytest.fixture
def repository(archive):
    folder, fingerprint, _ = archive
    return {
        "name": "vendor",
        "uri": f"file:{folder}/",
        "suite": "/",
        "key": {"url": "", "fingerprints": [fingerprint]},
    }


def update_lists(host):
    """Let apt verify the repository's signature; its own login cannot read pytest's folders."""
    host.run("apt-get", "-q", "-o", "APT::Update::Error-Mode=any", "-o", "APT::Sandbox::User=root", "update")


def serve(https_server, name, text):
    folder, address, _ = https_server
    (folder / name).write_text(text)
    return f"{address}/{name}"


def trust(https_server):
    return {"SSL_CERT_FILE": str(https_server[2])}


def test_apt_accepts_the_repository_and_a_second_run_changes_nothing(host, repository, archive, https_server):
    repository["key"]["url"] = serve(https_server, "vendor.asc", archive[2])
    repository["pin"] = {"release": "o=vendor", "priority": 600}
    arguments = {"repositories": [repository]}
    checked = host.module("repositories", arguments, check_mode=True, env=trust(https_server))
    assert checked["changed"], checked
    assert not host.has(SOURCE)
    first = host.module("repositories", arguments, env=trust(https_server))
    assert first["changed"], first
    update_lists(host)
    policy = host.run("apt-cache", "policy", "vendor-tool").stdout
    assert "Candidate: 1.0" in policy
    assert "600 file:" in policy
    # A key on the host is verified and not fetched again.
    repository["key"]["url"] = "https://localhost:1/none"
    assert not host.module("repositories", arguments)["changed"]


def test_wrong_key_changes_nothing_and_names_both_fingerprints(host, repository, https_server, signing_home):
    seen, other = signing_home.create_key("other")
    repository["key"]["url"] = serve(https_server, "other.asc", other)
    good = {**repository, "name": "good", "key": {**repository["key"], "fingerprints": [seen]}}
    result = host.module("repositories", {"repositories": [good, repository]}, env=trust(https_server))
    assert result["failed"]
    expected = repository["key"]["fingerprints"][0]
    assert f"refused, its key has the fingerprint {seen}, expected {expected}" in result["msg"]
    assert not host.has(SOURCE)
    assert not host.has("/etc/apt/sources.list.d/good.sources")


def test_only_the_expected_key_of_the_fetched_file_is_trusted(
    host, repository, archive, https_server, signing_home
):
    _, extra = signing_home.create_key("extra")
    repository["key"]["url"] = serve(https_server, "both.asc", extra + archive[2])
    host.module("repositories", {"repositories": [repository]}, env=trust(https_server))
    shown = signing_home.gpg("--show-keys", "--with-colons", stdin=host.read(KEY).encode()).decode()
    assert [line.split(":")[9] for line in shown.splitlines() if line.startswith("fpr:")] == [archive[1]]


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("https://localhost:1/none", "cannot fetch the signing key https://localhost:1/none"),
        ("http://localhost/key", "a key is fetched over https:// only"),
        ("", "a key without an address"),
    ],
)
def test_key_that_cannot_be_fetched_fails_with_the_remedy(host, repository, url, message):
    repository["key"]["url"] = url
    result = host.module("repositories", {"repositories": [repository]})
    assert result["failed"]
    assert message in result["msg"]
    assert (
        f"save the key {repository['key']['fingerprints'][0]} in a folder on the controller" in result["msg"]
    )
    assert not host.has(SOURCE)


def test_key_comes_from_a_folder_by_its_fingerprint(host, repository, archive, signing_home):
    folder = archive[0] / "keys"
    folder.mkdir()
    _, other = signing_home.create_key("neighbour")
    for name, text in (("a.asc", other), ("notes.txt", "no key"), ("any-name", archive[2])):
        (folder / name).write_text(text)
    arguments = {"repositories": [repository], "key_folder": str(folder)}
    assert host.ansible(MODULE, arguments)["changed"]
    update_lists(host)
    (folder / "any-name").unlink()
    message = host.ansible(MODULE, arguments)["msg"]
    assert f"no file in {folder} has the signing key {archive[1]}" in message


def test_older_entries_of_the_repository_are_taken_over(host, repository, archive, https_server):
    """What cuda-keyring, amdgpu-install and hand-written files leave: apt refuses one repository with two keys."""
    uri = repository["uri"]
    host.write("/usr/share/keyrings/old.asc", archive[2])
    host.write("/etc/apt/sources.list.d/old.list", f"deb [signed-by=/usr/share/keyrings/old.asc] {uri} /\n")
    other = "Types: deb\nURIs: https://example.org/other\nSuites: stable\nComponents: main\n"
    host.write(
        "/etc/apt/sources.list.d/mixed.sources",
        f"{other}\nTypes: deb\nURIs: {uri.rstrip('/')}\nSuites: /\nSigned-By: /usr/share/keyrings/old.asc\n",
    )
    repository["key"]["url"] = serve(https_server, "vendor.asc", archive[2])
    result = host.module("repositories", {"repositories": [repository]}, env=trust(https_server))
    assert sorted(result["taken_over"]) == [
        "/etc/apt/sources.list.d/mixed.sources",
        "/etc/apt/sources.list.d/old.list",
    ]
    assert not host.has("/etc/apt/sources.list.d/old.list")
    assert host.read("/etc/apt/sources.list.d/mixed.sources") == other
    host.run("rm", "/etc/apt/sources.list.d/mixed.sources")
    update_lists(host)
