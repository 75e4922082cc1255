"""Test invalid input, versions, and invariants of every driver plan."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet.drivers import (
    HostFacts,
    RequestedSoftware,
    data_file,
    detection,
    installed,
    plan_drivers,
    version,
)
from gpufleet.errors import InputError

SYSTEMS = [
    ("debian", "12", "6.1.0-50-amd64"),
    ("ubuntu", "22.04", "5.15.0-164-generic"),
    ("ubuntu", "24.04", "6.8.0-55-generic"),
    ("rocky", "9.6", "5.14.0-570.el9.x86_64"),
    ("debian", "13", "6.12.107+deb13-amd64"),
    ("ubuntu", "26.04", "7.0.0-15-generic"),
    ("rhel", "10.0", "6.12.0-55.9.1.el10_0.x86_64"),
    ("amzn", "2023", "6.12.37-61.105.amzn2023.x86_64"),
    ("debian", "13", "6.14.11-4-pve"),
]
NVIDIA = sorted(
    {c.pci for c in data_file.load_gpu_cards().values() if c.pci.startswith("10de") and c.market != "switch"}
)
AMD = sorted(
    {
        c.pci
        for c in data_file.load_gpu_cards().values()
        if c.pci.startswith("1002") and c.market != "integrated"
    }
)


def facts(pci, system=SYSTEMS[0], count=1, **more):
    name, version, kernel = system
    device = {"vendor": pci[:4], "device": pci[5:], "class": "030000"}
    document = {
        "pci": [device] * count,
        "os": {"id": name, "version_id": version},
        "kernel": kernel,
        "arch": "x86_64",
    }
    return HostFacts.from_json(document | {"date": "2026-11-21"} | more)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({}, "not the facts of a host: KeyError 'os'"),
        ({"pci": [], "os": None}, "not the facts of a host: TypeError"),
        (
            {"pci": [{}], "os": {"id": "debian", "version_id": "12"}, "kernel": "", "arch": ""},
            "KeyError 'vendor'",
        ),
    ],
)
def test_invalid_facts_are_refused_in_one_line(raw, message):
    with pytest.raises(InputError, match=message):
        HostFacts.from_json(raw)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (
            {"cuda": "twelve"},
            "gpufleet_software: cuda: 'twelve' is not a version number; give a version like 12.8",
        ),
        ({"cuda": 12}, "cuda: 12 is not a version number"),
        ({"rocm": "7"}, "rocm: '7' is not a version number; give a version like 7.2"),
        ({"driver": {"vendor": "intel"}}, "vendor: is 'intel'; give auto, nvidia, amd, none"),
        ({"driver": {"module": "closed"}}, "module: is 'closed'"),
        (
            {"driver": "nvidia"},
            "gpufleet_software: driver: is 'nvidia'; give a mapping with any of vendor, branch",
        ),
        ({"driver": {"brnch": "580"}}, "driver: unknown key 'brnch'; known keys: vendor, branch"),
        ({"drivr": {}}, "gpufleet_software: unknown key 'drivr'; known keys: driver, cuda"),
        (["nvidia"], "gpufleet_software: is .'nvidia'.; give a mapping"),
        ({"origin": "runfile"}, "origin: is 'runfile'; give auto, distribution, vendor"),
        ({"repository_keys": ["A"]}, "repository_keys: is .'A'.; give a mapping of repositories"),
        ({"repository_keys": {"r": 7}}, "repository_keys: r: is 7; give a fingerprint or a list"),
        (
            {"repository_keys": {"r": "A4B469"}},
            "repository_keys: r: 'A4B469' is not a fingerprint; give its 40",
        ),
        ({"repository_keys": {"r": []}}, "repository_keys: r: None is not a fingerprint"),
    ],
)
def test_invalid_requested_software_is_refused_in_one_line(raw, message):
    with pytest.raises(InputError, match=message):
        RequestedSoftware.from_json(raw)


def test_own_fingerprints_replace_those_of_the_table():
    own = RequestedSoftware.from_json({"repository_keys": {"nvidia-cuda": ["ab " * 20], "other": "cd" * 20}})
    plan = plan_drivers(facts("10de:2684", SYSTEMS[0]), own)
    assert [repository.key.fingerprints for repository in plan.repositories] == [("AB" * 20,)]


def test_requested_software_may_be_empty_or_name_a_patch_version():
    assert (
        RequestedSoftware.from_json(None)
        == RequestedSoftware()
        == RequestedSoftware.from_json({"driver": {}, "cuda": None, "rocm": "none"})
    )
    assert RequestedSoftware.from_json({"cuda": "12.8.1"}).cuda == "12.8"


@pytest.mark.parametrize(
    ("package_version", "driver_version", "branch"),
    [
        ("535.261.03-1", "535.261.03", 535),
        ("3:580.95.05-1.el9", "580.95.05", 580),
        ("580.126.09-0ubuntu0.22.04.1", "580.126.09", 580),
        ("20230210-5", "20230210", 20230210),
        ("", "", None),
    ],
)
def test_driver_version_and_branch_are_read_from_a_package_version(package_version, driver_version, branch):
    assert version.parse_upstream_version(package_version) == driver_version
    assert version.parse_driver_branch(package_version) == branch


def test_newest_version_is_found_by_number():
    assert version.find_newest_version(["580.95.05-1", "580.105.08-1", "580.82.07-1"]) == "580.105.08-1"
    assert version.find_newest_version([]) is None
    assert version.parse_kernel_series("6.17.0-8-generic") == (6, 17)


@pytest.mark.parametrize(
    ("name", "part", "origin", "module", "branch"),
    [
        ("nvidia-open", "driver", "vendor", "open", None),
        ("nvidia-kernel-dkms", "driver", None, "proprietary", None),
        ("nvidia-open-kernel-dkms", "driver", "distribution", "open", None),
        ("linux-modules-nvidia-580-server-open-generic", "driver", "distribution", "open", 580),
        ("nvidia-headless-no-dkms-570-server", "driver", None, "proprietary", 570),
        ("nvidia-utils-570-server", "library", None, None, 570),
        ("nvidia-driver-pinning-580", "pin", "vendor", None, 580),
        ("nvidia-fabricmanager-580", "fabric", None, None, 580),
        ("nvidia-fabric-manager", "fabric", None, None, None),
        ("nvidia-container-toolkit", "other", None, None, None),
        ("cuda-toolkit-12-8", "cuda", None, None, None),
    ],
)
def test_package_name_gives_part_origin_module_and_branch(name, part, origin, module, branch):
    package = installed.classify_driver_package(name, "1")
    assert (package.part, package.origin, package.module, package.branch) == (part, origin, module, branch)


def test_container_toolkit_is_never_removed():
    have = {
        "nvidia-open": "580.95.05-1",
        "nvidia-container-toolkit": "1.18.0-1",
        "cuda-toolkit-12-8": "12.8.1-1",
    }
    requested = RequestedSoftware.from_json({"driver": {"branch": "535"}, "origin": "distribution"})
    assert plan_drivers(facts("10de:1eb8", packages=have), requested).remove == ("nvidia-open",)


def test_packages_of_another_ubuntu_branch_are_all_replaced():
    have = dict.fromkeys(
        ("nvidia-headless-no-dkms-570-server-open", "nvidia-utils-570-server"), "570.133.20-0ubuntu0.24.04.1"
    ) | {"linux-modules-nvidia-570-server-open-generic": "6.8.0-55.57"}
    plan = plan_drivers(facts("10de:1eb8", SYSTEMS[2], packages=have), RequestedSoftware(branch="580"))
    assert plan.action == "upgrade"
    assert plan.remove == tuple(sorted(have))


def test_board_specific_card_row_takes_precedence():
    device = facts("10de:25b6").pci[0]
    assert detection.find_card_of_device(device).name == "A2 / A16"


@settings(max_examples=150)
@given(
    pci=st.sampled_from(NVIDIA),
    system=st.sampled_from(SYSTEMS),
    count=st.sampled_from([1, 4, 8]),
    secure=st.sampled_from([True, False, None]),
    cuda=st.sampled_from([None, *data_file.load_cuda_releases()]),
    branch=st.sampled_from(["auto", *map(str, data_file.load_driver_branches())]),
)
def test_nvidia_plan_invariants(*, pci, system, count, secure, cuda, branch):
    host = facts(pci, system, count, secure_boot=secure)
    plan = plan_drivers(host, RequestedSoftware(cuda=cuda, branch=branch))
    assert plan.action in ("install", "refuse")
    assert (plan.refusal is not None) == (plan.action == "refuse")
    assert all(reason.source and reason.message for reason in plan.reasons)
    if plan.refusal:
        assert plan.refusal.remedy
        return
    generation = data_file.load_gpu_architectures()[plan.cards[0].architecture]
    number = int(plan.branch)
    assert generation.first_branch <= number <= (generation.last_branch or number)
    assert branch in ("auto", plan.branch)
    assert generation.open if plan.module == "open" else generation.proprietary
    assert {package.name for package in plan.packages} <= set(plan.holds)
    assert plan.module_signing != "none" or not secure
    assert bool(plan.cuda) == bool(cuda)
    least = data_file.load_cuda_releases()[cuda].min_driver if cuda else 0
    assert number >= least or plan.cuda.compat
    if cuda:  # NVIDIA's minor version compatibility: an older driver of the same major runs it, with a reason
        toolkit = int(data_file.load_cuda_releases()[cuda].toolkit_driver.partition(".")[0])
        is_explained = "cuda.minor" in {reason.code for reason in plan.reasons}
        assert is_explained == (number < toolkit and not plan.cuda.compat)


@settings(max_examples=80)
@given(
    pci=st.sampled_from(AMD),
    system=st.sampled_from(SYSTEMS),
    rocm=st.sampled_from([None, *data_file.load_rocm_releases()]),
)
def test_amd_plan_invariants(pci, system, rocm):
    plan = plan_drivers(facts(pci, system, 2, secure_boot=False), RequestedSoftware(rocm=rocm))
    assert plan.vendor == "amd"
    if plan.refusal:
        assert rocm or plan.refusal.code in ("amd.kernel_old", "amd.firmware_old", "amd.system")
        return
    assert bool(plan.rocm) == bool(rocm)
    if rocm:
        assert set(plan.rocm.gfx) <= set(data_file.load_rocm_releases()[rocm].gfx)
    assert bool(plan.headers) == any(package.name == "amdgpu-dkms" for package in plan.packages)


def test_incompatible_kernel_is_reported_with_its_bug_report():
    newer = ("ubuntu", "24.04", "6.18.14-061814-generic")
    older = ("ubuntu", "24.04", "6.14.0-24-generic")
    assert (
        "ROCm/amdgpu#209"
        in plan_drivers(facts("1002:740f", newer), RequestedSoftware(rocm="7.2")).reasons[0].source
    )
    assert "#4619" in plan_drivers(facts("1002:740f", older), RequestedSoftware(rocm="6.2")).reasons[0].source


def test_plan_is_deterministic():
    host = facts("10de:2330", count=8)
    assert plan_drivers(host, RequestedSoftware()) == plan_drivers(host, RequestedSoftware())


@pytest.mark.parametrize("kernel", ["6.8.0-55-generic\n rm -rf /", "6.8 0", "x" * 101, "6.8.0-55;reboot"])
def test_release_of_a_kernel_that_is_none_is_refused(kernel):
    """It becomes part of the names of packages."""
    facts = {"pci": [], "os": {"id": "ubuntu", "version_id": "24.04"}, "kernel": kernel, "arch": "x86_64"}
    with pytest.raises(InputError, match="the release of a kernel has other characters"):
        HostFacts.from_json(facts)


def test_architecture_without_packages_gets_a_remedy_that_names_one():
    facts = {
        "pci": [{"vendor": "10de", "device": "26b9", "class": "030200"}],
        "os": {"id": "ubuntu", "version_id": "24.04"},
        "kernel": "6.8.0-55-generic",
        "arch": "riscv64",
    }
    refusal = plan_drivers(HostFacts.from_json(facts), RequestedSoftware()).refusal
    assert refusal.remedy.startswith("use a machine of x86_64 or aarch64")


def test_stream_that_keeps_the_branch_is_of_the_planned_module():
    facts = {
        "pci": [{"vendor": "10de", "device": "1db1", "class": "030200"}],
        "os": {"id": "rhel", "version_id": "9.6"},
        "kernel": "5.14.0-570.12.1.el9_6.x86_64",
        "arch": "x86_64",
    }
    plan = plan_drivers(HostFacts.from_json(facts), RequestedSoftware())
    text = next(reason.message for reason in plan.reasons if reason.code == "packages.unresolved")
    assert "nvidia-driver:580-dkms keeps the branch" in text
    assert plan.streams == ("nvidia-driver:580-dkms",)
