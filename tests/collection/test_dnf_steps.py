"""Steps on hosts with dnf: prerequisites, streams, transactions and version locks, as the vendors document them.

The names of repositories are those of RHEL (subscription-manager, RHUI), Rocky Linux and Oracle Linux; the lines of
versionlock and of ansible.builtin.dnf are those of dnf 4.14.
"""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleActionFail

from ansible_collections.gpufleet.fleet.plugins.module_utils.versionlock import (
    find_packages_of_same_version,
    parse_locks,
)
from ansible_collections.gpufleet.fleet.plugins.plugin_utils import dnf_steps

RHEL_BUILDER = "codeready-builder-for-rhel-9-x86_64-rpms"


def make_host(repositories, os_id="rocky", version="9.6", streams=None):
    return dnf_steps.DnfHost(os_id, version, repositories, streams or {})


def commands(steps):
    return [" ".join(step.arguments.get("argv") or step.arguments.get("name") or []) for step in steps]


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        (
            make_host({"crb": False}),
            ["epel-release", "dnf-command(config-manager)", "dnf config-manager --set-enabled crb"],
        ),
        (make_host({"crb": True, "epel": True}), []),
        (
            make_host({RHEL_BUILDER: False, "epel": True}, "rhel"),
            [f"subscription-manager repos --enable {RHEL_BUILDER}"],
        ),
        (
            make_host({"codeready-builder-for-rhel-9-rhui-rpms": False, "epel": True}, "rhel"),
            [
                "dnf-command(config-manager)",
                "dnf config-manager --set-enabled codeready-builder-for-rhel-9-rhui-rpms",
            ],
        ),
        (
            make_host({"ol9_codeready_builder": False, "epel": True}, "ol"),
            ["dnf-command(config-manager)", "dnf config-manager --set-enabled ol9_codeready_builder"],
        ),
    ],
)  # fmt: skip
def test_only_missing_prerequisites_are_enabled(host, expected):
    assert commands(dnf_steps.list_prerequisite_steps(["epel", "crb"], host)) == expected


def test_epel_on_rhel_is_installed_after_its_key_was_verified():
    key, package = dnf_steps.list_prerequisite_steps(["epel"], make_host({}, "rhel", "10.1"))
    assert key.module == "ansible.builtin.rpm_key"
    assert key.arguments["fingerprint"] == "7D8D15CBFC4E62688591FB2633D98517E37ED158"
    assert package.arguments["name"] == [f"{dnf_steps.EPEL_ADDRESS}/epel-release-latest-10.noarch.rpm"]


@pytest.mark.parametrize(
    ("prerequisite", "message"),
    [("epel", "no key of EPEL for rhel 11.0"), ("crb", "register the host .subscription-manager register.")],
)
def test_prerequisite_that_cannot_be_had_is_refused_with_the_remedy(prerequisite, message):
    with pytest.raises(AnsibleActionFail, match=message):
        dnf_steps.list_prerequisite_steps([prerequisite], make_host({"baseos": True}, "rhel", "11.0"))


@pytest.mark.parametrize(
    ("enabled", "expected"),
    [
        ({}, ["dnf -y module enable nvidia-driver:580-open"]),
        ({"nvidia-driver": "580-open"}, []),
        (
            {"nvidia-driver": "open-dkms"},
            ["dnf -y module reset nvidia-driver", "dnf -y module enable nvidia-driver:580-open"],
        ),
    ],
)
def test_another_stream_is_reset_first(enabled, expected):
    host = make_host({}, streams=enabled)
    assert commands(dnf_steps.list_stream_steps(["nvidia-driver:580-open"], host)) == expected


def test_versions_are_joined_with_a_hyphen_and_conflicts_are_erased_only_with_removals():
    step = dnf_steps.install_step({"present": ["nvidia-open=580.126.20-1.el9", "dkms"], "absent": []})
    assert step.arguments["name"] == ["nvidia-open-580.126.20-1.el9", "dkms"]
    assert not step.arguments["allowerasing"]
    assert dnf_steps.install_step({"present": ["a"], "absent": ["b"]}).arguments["allowerasing"]
    assert dnf_steps.install_step({"present": []}) is None
    assert dnf_steps.remove_step({"absent": []}) is None


def test_exclusions_and_comments_are_not_locks():
    lines = ["# Added lock on Sat Nov 21", "kmod-nvidia-3:580.95.05-1.el9.*", "!bash-0:5.1.9-1.el9.*", ""]
    assert parse_locks(lines) == {"kmod-nvidia": "3:580.95.05-1.el9"}


def test_packages_of_one_version_are_locked_together():
    versions = {"nvidia-open": "3:580-1", "kmod-nvidia-open-dkms": "3:580-1", "dkms": "0:3.2-1"}
    assert find_packages_of_same_version(["nvidia-open", "not-installed"], versions) == {
        "nvidia-open",
        "kmod-nvidia-open-dkms",
    }


def test_changed_packages_are_read_from_the_results_of_dnf():
    results = [
        "Installed: kmod-nvidia-open-dkms-3:580.95.05-1.el9.noarch",
        "Removed: nvidia-open-3:570.172.08-1.el9.noarch",
    ]
    assert dnf_steps.parse_changed_packages(results) == ["kmod-nvidia-open-dkms", "nvidia-open"]
