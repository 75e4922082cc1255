"""Test package changes with rpm and dnf: the commands and their parsed output. No RHEL host is used.

The query's shape is our own; dnf's two lines are quoted in github.com/fastfetch-cli/fastfetch/issues/1057.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ansible_collections.gpufleet.fleet.plugins.module_utils import packages, rpm

INSTALLED = (
    "bash\tx86_64\t0\t5.1.8\t9.el9\nkmod-nvidia\tx86_64\t3\t580.95.05\t1.el9\ngpg-pubkey\t(none)\t0\tab\tcd\n"
)
LOCKED = "# Added lock on Sat Nov 21\nkmod-nvidia-3:580.95.05-1.el9.*\n!bash-0:5.1.9-1.el9.*\n"
WANTED = {
    "present": [], "absent": [], "held": [], "unheld": [], "install_recommends": True, "allow_downgrade": False,
}  # fmt: skip


@pytest.fixture
def host(monkeypatch):
    monkeypatch.setattr(rpm, "run_program", lambda argv, **_: (1, "", ""))
    return rpm.RpmPackages(INSTALLED, LOCKED)


def find_package_difference(host, **requested):
    return packages.PackageDifference({**WANTED, **requested}, host)


def test_versions_contain_an_epoch_only_if_there_is_one(host):
    assert (host.installed_version("bash"), host.installed_version("kmod-nvidia")) == (
        "5.1.8-9.el9",
        "3:580.95.05-1.el9",
    )


@pytest.mark.parametrize(("name", "is_held"), [("kmod-nvidia", True), ("kmod", False), ("bash", False)])
def test_version_lock_applies_to_its_exact_package_and_an_exclusion_is_not_a_lock(host, name, is_held):
    assert host.is_package_held(name) is is_held


def test_satisfied_packages_need_no_change(host):
    assert not find_package_difference(
        host, present=["bash", "bash=5.1.8-*"], absent=["chrony"], held=["kmod-nvidia"]
    )


def test_removals_precede_installations(host):
    changes = find_package_difference(host, present=["chrony=4.3-1.el9"], absent=["bash"])
    assert rpm.dnf_commands(changes, {**WANTED, "install_recommends": False}) == [
        ["dnf", "-y", "-q", "--setopt=install_weak_deps=False", "remove", "bash"],
        [
            "dnf",
            "-y",
            "-q",
            "--setopt=install_weak_deps=False",
            "install",
            "--allowerasing",
            "chrony-4.3-1.el9",
        ],
    ]


def test_unknown_package_is_reported():
    out = "No match for argument: fastfetch\nError: Unable to find a match: fastfetch\n"
    change = SimpleNamespace(install=[("fastfetch", None)], remove=[])
    message = rpm.explain_dnf_failure(change, out, "")
    assert message == "cannot install fastfetch: no package fastfetch in this host's repositories"
