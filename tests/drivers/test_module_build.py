"""Test which kernels break NVIDIA's module, which firmware a card lacks."""

from __future__ import annotations

import pytest

from gpufleet.drivers import HostFacts, RequestedSoftware, data_file, plan_drivers, radeon
from tools import driver_lint as lint


def plan(card, system, kernel, arch="x86_64", requested=None, **more):
    name, version = system.split()
    facts = {
        "pci": [{"vendor": card[:4], "device": card[5:], "class": "030000"}],
        "os": {"id": name, "version_id": version},
        "kernel": kernel,
        "arch": arch,
        "date": "2026-11-28",
    }
    return plan_drivers(HostFacts.from_json(facts | more), RequestedSoftware.from_json(requested))


def message(plan, code):
    return next(reason.message for reason in plan.reasons if reason.code == code)


def test_refusal_of_a_kernel_names_release_branch_and_older_kernel():
    refused = plan(
        "10de:2684", "debian 13", "7.1.2-amd64", candidates={"nvidia-open": ["580.142-1"]}, headers_installed=True
    ).refusal  # fmt: skip
    assert refused.message == "driver 580.142-1 does not build on kernel 7.1.2-amd64"
    assert refused.remedy == (
        "use 580.159.04 or newer; or request branch 595 with origin: vendor; or start a kernel older than 7.1 and"
        " hold it"
    )


def test_remedy_names_the_release_for_this_kernel_not_for_the_first_that_broke():
    candidates = {"nvidia-open": ["580.119.02-1"]}
    refused = plan(
        "10de:2684", "debian 13", "7.2.1-amd64", candidates=candidates, headers_installed=True
    ).refusal
    assert refused.remedy.startswith("use 580.178.04 or newer; or ")
    assert refused.remedy.endswith("start a kernel older than 6.19 and hold it")


def test_branch_that_has_ended_names_only_origins_that_the_machine_has():
    x86 = plan("10de:2342", "debian 12", "6.1.0-50-amd64", requested={"origin": "distribution"})
    arm = plan("10de:2342", "debian 12", "6.1.0-50-arm64", "aarch64")
    assert "origin: vendor and branch 580 are maintained" in message(x86, "branch.end_of_life")
    assert "no repository for Debian 12 on aarch64 has a maintained branch" in message(
        arm, "branch.end_of_life"
    )
    gke = plan("10de:27b8", "ubuntu 24.04", "6.8.0-1029-gke", "aarch64").refusal
    assert "origin: vendor" in gke.remedy


@pytest.mark.parametrize(
    ("distribution", "version", "firmware", "missing"),
    [
        ("debian", "20230210-5", "gc_11_0_0", False),
        ("debian", "20230210-5", "gc_11_0_3", True),
        ("debian", "20220913-1", "gc_11_0_3", True),  # older than one that lacks it
        ("debian", "20240709-2", "gc_11_0_3", False),  # between: not known
        ("debian", "20250410-2~bpo12+1", "gc_12_0_1", False),
        ("debian", "20260916-1~bpo13+1", "gc_9_5_0", False),  # newer than what was read
        ("ubuntu", "20240318.git3b128b60-0ubuntu2", "gc_12_0_1", True),
        ("ubuntu", "20240318.git3b128b60-0ubuntu2.10", "gc_12_0_1", False),
        ("ubuntu", "20240318.git3b128b60-0ubuntu3.5", "gc_12_0_1", False),
        ("raspberry-pi-os", "1:20230625-2+rpt3", "gc_11_0_3", False),
        ("debian", "of my own", "gc_11_0_3", False),
    ],
)
def test_firmware_is_missing_only_where_packages_were_read(distribution, version, firmware, missing):
    assert radeon.is_firmware_missing(distribution, version, firmware) == missing


def test_debian_s_own_packages_are_judged_by_their_revision():
    for revision, code in (("2", "driver.kernel_breaks"), ("4", None), ("5.1", None)):
        version = f"550.163.01-{revision}"
        names = ("nvidia-kernel-dkms", "libcuda1", "libnvidia-ml1", "nvidia-smi")
        made = plan(
            "10de:2684", "debian 13", "6.17.9+deb14-amd64", requested={"origin": "distribution"},
            headers_installed=True, candidates={name: [version] for name in (*names, "nvidia-open-kernel-dkms")},
        )  # fmt: skip
        assert (made.refusal and made.refusal.code) == code, revision


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({}, None),
        ({"branch": "536"}, "nvidia_kernels.csv: 536 6.19: unknown branch"),
        ({"breaks_from": "6"}, "nvidia_kernels.csv: 580 6: not a kernel series"),
        ({"fixed_in": "590.1"}, "nvidia_kernels.csv: 580 6.19: 590.1 is of another branch"),
        ({"certainty": "sure"}, "nvidia_kernels.csv: 580 6.19: unknown origin or certainty"),
    ],
)
def test_wrong_kernel_break_is_reported(change, line):
    row = {
        "branch": "580",
        "origin": "",
        "breaks_from": "6.19",
        "fixed_in": "580.126.18",
        "certainty": "confirmed",
    }
    expected = [line] if line else []
    assert list(lint.find_kernel_break_problems([row | change]))[: len(expected) or 1] == expected


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({}, None),
        ({"gfx": "gfx1"}, "amd_processors.csv: gfx1: no card has it"),
        ({"firmware": "gc_1"}, "amd_processors.csv: gfx1201: no row of amd_firmware.csv contains gc_1"),
        ({"kernel_without": "6.11"}, "amd_processors.csv: gfx1201: kernel 6.11 is not older than 6.11"),
        ({"mesa_with": ""}, "amd_processors.csv: gfx1201: mesa 24.0.5 is not older than nothing"),
    ],
)
def test_wrong_processor_is_reported(change, line):
    row = {
        "gfx": "gfx1201", "firmware": "gc_12_0_1", "kernel_without": "6.8", "kernel_with": "6.11",
        "mesa_without": "24.0.5", "mesa_with": "25.0.7",
    }  # fmt: skip
    found = lint.find_processor_problems([row | change], [{"contains": "gc_12_0_1"}], {"gfx1201"})
    assert list(found) == ([line] if line else [])


def test_every_branch_s_newest_break_leaves_a_way_out():
    """A refusal names another branch that builds, unless the cards have none."""
    newest = max((row.breaks_from for row in data_file.load_nvidia_kernel_breaks()), key=float)
    for branch in sorted({row.branch for row in data_file.load_nvidia_kernel_breaks() if not row.fixed_in}):
        requested = {"origin": "vendor", "driver": {"branch": str(branch)}}
        refused = plan("10de:2684", "ubuntu 24.04", f"{newest}.0-1-generic", requested=requested).refusal
        assert refused.code == "driver.kernel_breaks"
        assert "request branch 580 with origin: vendor" in refused.remedy
