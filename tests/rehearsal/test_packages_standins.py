"""The stand-in repository: data to packages, and data that no package can be made of."""

from __future__ import annotations

import hashlib
import os
import subprocess

import pytest

from gpufleet.errors import InputError
from gpufleet.rehearsal.packages import standins

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
    return standins.ensure_repository(DATA, tmp_path_factory.mktemp("cache"))


def field(deb, *names):
    return subprocess.run(
        ["dpkg-deb", "--field", deb, *names], capture_output=True, text=True, check=True
    ).stdout


def test_each_version_is_a_package_and_says_that_it_stands_in(repository):
    found = sorted(path.name for path in repository.glob("*.deb"))
    assert found == ["card-driver_2.0-1_all.deb", "card-driver_3.0-1_all.deb"]
    assert field(repository / found[0], "Version").strip() == "1:2.0-1"
    assert field(repository / found[0], "Depends").strip() == "card-common (= 1:2.0-1)"
    assert field(repository / found[1], "Description").startswith("STAND-IN a driver")


def test_files_commands_and_units_are_in_it(repository, tmp_path):
    subprocess.run(["dpkg-deb", "-R", repository / "card-driver_3.0-1_all.deb", tmp_path], check=True)
    assert (tmp_path / "etc/card").read_text() == "of 3.0-1\n"
    smi = tmp_path / "usr/bin/card-smi"
    assert subprocess.run([smi], capture_output=True, text=True, check=True).stdout == "3.0-1\n"
    assert "# STAND-IN" in smi.read_text()
    assert "ExecStart" in (tmp_path / "lib/systemd/system/card.service").read_text()
    assert "touch /run/3.0-1" in (tmp_path / "DEBIAN/postinst").read_text()


def test_the_index_is_what_lies_beside_it(repository):
    index = (repository / "Packages").read_text()
    assert (
        f" {hashlib.sha256(index.encode()).hexdigest()} {len(index)} Packages"
        in (repository / "Release").read_text()
    )
    for stanza in index.strip().split("\n\n"):
        told = dict(line.split(": ", 1) for line in stanza.splitlines() if not line.startswith(" "))
        file = repository / told["Filename"]
        assert (int(told["Size"]), told["SHA256"]) == (
            file.stat().st_size, hashlib.sha256(file.read_bytes()).hexdigest(),
        )  # fmt: skip


def test_the_same_data_is_built_once_and_other_data_anew(repository):
    cache = repository.parents[1]
    assert standins.ensure_repository(DATA, cache) == repository
    assert standins.ensure_repository(DATA.replace("3.0-1", "4.0-1"), cache) != repository


def test_repositories_are_forgotten_when_nobody_began_with_them_for_days(tmp_path):
    first, second = (standins.ensure_repository("packages: []\n" + "#" * n, tmp_path) for n in (1, 2))
    for one in (first, second):
        os.utime(one, (0, 0))
    standins.ensure_repository("packages: []\n##", tmp_path)  # used again
    third = standins.ensure_repository("packages: []\n###", tmp_path)
    assert set((tmp_path / "stand-in").glob("[!.]*")) == {second, third}


def test_bytes_that_fill_a_disk(tmp_path):
    data = "packages: [{name: big, versions: ['1'], summary: x, source: x, fill_mib: 3}]"
    deb = next(standins.ensure_repository(data, tmp_path).glob("*.deb"))
    assert deb.stat().st_size < 100_000
    assert (
        "3145728"
        in subprocess.run(["dpkg-deb", "-c", deb], capture_output=True, text=True, check=True).stdout
    )


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ("packages: [", "is not valid YAML"),
        (DATA.replace("summary: a driver", "summary: ''"), "lacks summary"),
        (DATA.replace("conflicts:", "conflict:"), "unknown conflict"),
        (DATA + ENTRY, "given twice: card-driver=1:2.0-1 all, card-driver=3.0-1 all"),
    ],
)
def test_wrong_data_is_refused(tmp_path, data, problem):
    with pytest.raises(InputError, match=problem):
        standins.ensure_repository(data, tmp_path)
    assert not list(tmp_path.rglob("*.deb"))


def test_what_is_shipped_can_be_built_and_names_its_sources():
    repository = standins.ensure_repository()
    index = (repository / "Packages").read_text()
    assert index.count("\nDescription: STAND-IN ") == index.count("Package: ") > 10
    assert {"nvidia-open", "nvidia-container-toolkit", "amdgpu-dkms", "cuda-keyring"} <= {
        line.removeprefix("Package: ") for line in index.splitlines() if line.startswith("Package: ")
    }
