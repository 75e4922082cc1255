"""Test how the job reads plans and outputs. The job itself needs a network and is not part of the suite."""

from __future__ import annotations

import dataclasses

import pytest

from repositories import job, resolve
from repositories.backend import BackendError
from repositories.plans import SYSTEMS, PackageSet, collect_package_sets

DEBIAN, ROCKY = SYSTEMS[0], next(system for system in SYSTEMS if system.name == "rocky-9")
KEY = {"url": "https://vendor.example/key.asc", "fingerprints": ["A" * 40]}
REPOSITORY = {
    "name": "vendor",
    "uri": "https://vendor.example/deb",
    "suite": "/",
    "components": [],
    "key": KEY,
    "pin": None,
}
# apt 2.6 (Debian 12) and dnf 4 (RHEL 9): the lines that decide.
APT_GOOD = "Reading package lists...\n0 upgraded, 61 newly installed, 0 to remove and 0 not upgraded.\n"
APT_BAD = (
    "The following packages have unmet dependencies:\n"
    " nvidia-open : Depends: nvidia-kernel-open-dkms (= 580.95.05-1) but it is not installable\n"
    "E: Unable to correct problems, you have held broken packages.\n"
)
APT_PROBLEM = (
    "nvidia-open : Depends: nvidia-kernel-open-dkms (= 580.95.05-1) but it is not installable;"
    " E: Unable to correct problems, you have held broken packages."
)
DNF_GOOD = (
    "Transaction Summary\n====\nInstall  44 Packages\n\nTotal download size: 300 M\nOperation aborted.\n"
)
DNF_BAD = (
    "Last metadata expiration check\nNo match for argument: nvidia-open\nError: Unable to find a match\n"
)


@pytest.mark.parametrize(
    ("system", "status", "output", "expected"),
    [
        (DEBIAN, 0, APT_GOOD, (True, "61 packages")),
        (
            DEBIAN,
            100,
            APT_BAD,
            (
                False,
                APT_PROBLEM,
            ),
        ),
        (DEBIAN, 9, "", (False, "exit status 9")),
        (ROCKY, 1, DNF_GOOD, (True, "44 packages")),
        (ROCKY, 1, DNF_BAD, (False, "No match for argument: nvidia-open; Error: Unable to find a match")),
        (ROCKY, 125, "cannot start the container\n", (False, "cannot start the container")),
    ],
)
def test_outputs_are_judged(system, status, output, expected):
    assert dataclasses.astuple(resolve.judge(system, status, output)) == expected


def package_set(system, **fields):
    entry = {"cases": ("t4",), "packages": ("a", "b"), "repositories": (), "streams": (), "prerequisites": ()}
    return PackageSet(system, **{**entry, **fields})


def test_repositories_get_their_verified_key_as_the_role_writes_them(monkeypatch):
    monkeypatch.setattr(resolve, "fetch_key", lambda url, fingerprints: f"{url} {len(fingerprints)}")
    files, script = resolve.build_input(package_set(DEBIAN, repositories=(REPOSITORY,)))
    assert files["/etc/apt/keyrings/vendor.asc"] == "https://vendor.example/key.asc 1"
    assert "Signed-By: /etc/apt/keyrings/vendor.asc\n" in files["/etc/apt/sources.list.d/vendor.sources"]
    assert script.endswith("apt-get -s --no-install-recommends install a b\n")
    files, script = resolve.build_input(
        package_set(
            ROCKY,
            repositories=(REPOSITORY,),
            streams=("nvidia-driver:580-open",),
            prerequisites=("epel", "crb"),
        )
    )
    assert "gpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-vendor\n" in files["/etc/yum.repos.d/vendor.repo"]
    assert "dnf -y module enable nvidia-driver:580-open\n" in script
    assert (
        script.index("epel-release") < script.index("module enable") < script.index("--assumeno install a b")
    )


def test_a_key_without_https_is_refused():
    with pytest.raises(BackendError, match="over https:// only"):
        resolve.fetch_key("http://vendor.example/key.asc", ("A" * 40,))


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_every_system_has_package_sets_and_known_prerequisites(system):
    sets, _ = collect_package_sets(system)
    assert sets
    assert {word for entry in sets for word in entry.prerequisites} <= set(resolve.DNF_PREREQUISITES)
    assert all(entry.packages and entry.cases for entry in sets)


def test_a_set_that_does_not_resolve_is_exit_status_1(monkeypatch, capsys):
    class Refusing:
        def __init__(self, *_arguments):
            pass

        def run(self, _files, _script):
            return 100, APT_BAD

    monkeypatch.setattr(job, "ChrootBackend", Refusing)
    assert job.main(["--system", "debian-12", "--root", "--distribution-only"]) == 1
    output = capsys.readouterr().out
    assert "NOT resolved: nvidia-open : Depends: nvidia-kernel-open-dkms" in output
    assert "0 of 3 resolved" in output
