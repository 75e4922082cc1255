"""The fake package repository: valid data is built into packages, invalid data is refused."""

from __future__ import annotations

import hashlib
import os
import subprocess

import pytest

from gpufleet.errors import InputError
from gpufleet.rehearsal.packages.repository import ensure_fake_repository

ENTRY = """
  - name: card-driver
    versions: ["1:2.0-1", "3.0-1"]
    summary: a driver
    source: a test
    depends: ["card-common (= {version})"]
    conflicts: [other-driver]
    files: {/etc/card: "of {version}\\n"}
    commands: {card-smi: "echo {version}"}
    units: {card.service: "[Service]\\nExecStart=/bin/true\\n"}
    postinst: "touch /run/{version}"
"""
DATA = f"packages:{ENTRY}"


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    return ensure_fake_repository(DATA, tmp_path_factory.mktemp("cache"))


def field(deb, *names):
    return subprocess.run(
        ["dpkg-deb", "--field", deb, *names], capture_output=True, text=True, check=True
    ).stdout


def test_each_version_is_a_package_marked_as_fake(repository):
    names = sorted(path.name for path in repository.glob("*.deb"))
    assert names == ["card-driver_2.0-1_all.deb", "card-driver_3.0-1_all.deb"]
    assert field(repository / names[0], "Version").strip() == "1:2.0-1"
    assert field(repository / names[0], "Depends").strip() == "card-common (= 1:2.0-1)"
    assert field(repository / names[1], "Description").startswith("FAKE a driver")


def test_package_contains_files_commands_and_units(repository, tmp_path):
    subprocess.run(["dpkg-deb", "-R", repository / "card-driver_3.0-1_all.deb", tmp_path], check=True)
    assert (tmp_path / "etc/card").read_text() == "of 3.0-1\n"
    smi = tmp_path / "usr/bin/card-smi"
    assert subprocess.run([smi], capture_output=True, text=True, check=True).stdout == "3.0-1\n"
    assert "# FAKE" in smi.read_text()
    assert "ExecStart" in (tmp_path / "lib/systemd/system/card.service").read_text()
    assert "touch /run/3.0-1" in (tmp_path / "DEBIAN/postinst").read_text()


def test_repository_index_describes_the_packages(repository):
    index = (repository / "Packages").read_text()
    assert (
        f" {hashlib.sha256(index.encode()).hexdigest()} {len(index)} Packages"
        in (repository / "Release").read_text()
    )
    for stanza in index.strip().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in stanza.splitlines() if not line.startswith(" "))
        file = repository / fields["Filename"]
        assert (int(fields["Size"]), fields["SHA256"]) == (
            file.stat().st_size, hashlib.sha256(file.read_bytes()).hexdigest(),
        )  # fmt: skip


def test_repository_is_built_once_for_the_same_data(repository):
    cache = repository.parents[1]
    assert ensure_fake_repository(DATA, cache) == repository
    assert ensure_fake_repository(DATA.replace("3.0-1", "4.0-1"), cache) != repository


def test_unused_repositories_expire(tmp_path):
    first, second = (ensure_fake_repository("packages: []\n" + "#" * n, tmp_path) for n in (1, 2))
    for folder in (first, second):
        os.utime(folder, (0, 0))
    ensure_fake_repository("packages: []\n##", tmp_path)  # used again
    third = ensure_fake_repository("packages: []\n###", tmp_path)
    assert set((tmp_path / "fake").glob("[!.]*")) == {second, third}


def test_filler_package_has_its_size_only_when_installed(tmp_path):
    data = "packages: [{name: big, versions: ['1'], summary: x, source: x, fill_mib: 3}]"
    deb = next(ensure_fake_repository(data, tmp_path).glob("*.deb"))
    assert deb.stat().st_size < 100_000
    assert (
        "3145728"
        in subprocess.run(["dpkg-deb", "-c", deb], capture_output=True, text=True, check=True).stdout
    )


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ("packages: [", "is not valid YAML"),
        (DATA.replace("summary: a driver", "summary: ''"), "has no summary"),
        (DATA.replace("conflicts:", "conflict:"), "unknown conflict"),
        (DATA + ENTRY, "duplicate packages: card-driver=1:2.0-1 all, card-driver=3.0-1 all"),
    ],
)
def test_invalid_package_data_is_refused(tmp_path, data, problem):
    with pytest.raises(InputError, match=problem):
        ensure_fake_repository(data, tmp_path)
    assert not list(tmp_path.rglob("*.deb"))


def test_shipped_package_data_can_be_built():
    built = ensure_fake_repository()
    index = (built / "Packages").read_text()
    assert index.count("\nDescription: FAKE ") == index.count("Package: ") > 10
    assert {"nvidia-open", "nvidia-container-toolkit", "amdgpu-dkms", "cuda-keyring"} <= {
        line.removeprefix("Package: ") for line in index.splitlines() if line.startswith("Package: ")
    }
