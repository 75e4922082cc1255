"""Test the module `hardware` and the action `driver_plan` with file trees of real machines."""

from __future__ import annotations

import itertools

import pytest

from ansible_collections.gpufleet.fleet.plugins.modules import hardware

MADISON = """\
 nvidia-open | 580.95.05-1 | https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64  Packages
 nvidia-open | 570.124.06-1 | https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64  Packages
 nvidia-smi | 535.261.03-1 | http://deb.debian.org/debian bookworm/non-free amd64 Packages
 nvidia-smi | 535.261.03-1 | http://other.example/debian bookworm/non-free amd64 Packages
 nvidia-graphics-drivers | 535.261.03-1 | http://deb.debian.org/debian bookworm/non-free Sources
"""
# /proc/driver/nvidia/version of a proprietary and of an open module (public listings of both).
CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.261.03  Thu May 22 00:12:22 UTC 2025\n"
OPEN = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs-builder@U22)\n"
)

EXPECTED = [
    "planned.plan.cards[0].name == 'T4'",
    "planned.plan.cuda.version == '12.8'",
    "told.plan.refusal.code == 'cards.unknown'",
    "told.gpufleet.event == 'driver_plan'",
    "'driver_plan' not in ansible_facts",
    "refused.failed",
    "'unknown card: PCI id 10de:fffe' in refused.msg",
    "'gpu-cards.yaml next to Pulumi.yaml' in refused.msg",
    "'gpufleet_software: is \\'nvidia\\'; give a mapping' in a_word.msg",
    "wrong.failed",
    "'not the facts of a host' in wrong.msg",
]


def write(root, files):
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def function(vendor="0x10de", device="0x2330", kind="0x030200", **more):
    return {"vendor": f"{vendor}\n", "device": f"{device}\n", "class": f"{kind}\n", **more}


def place(root, devices):
    for address, files in devices.items():
        write(root, {f"{address}/{name}": text for name, text in files.items()})


def test_pci_functions_are_read_from_sysfs(tmp_path):
    place(tmp_path, {"0000:11:00.0": function(subsystem_vendor="0x10de\n", subsystem_device="0x16c1\n")})
    assert hardware.read_pci_functions(tmp_path) == [
        {
            "address": "0000:11:00.0",
            "vendor": "10de",
            "device": "2330",
            "class": "030200",
            "subsystem": "10de:16c1",
        }
    ]


def test_invalid_pci_functions_are_ignored(tmp_path):
    place(tmp_path, {"0000:00:00.0": {"vendor": "0x8086\n"}, "0000:01:00.0": function()})
    (tmp_path / "stray").write_text("")
    assert [function["address"] for function in hardware.read_pci_functions(tmp_path)] == ["0000:01:00.0"]
    assert hardware.read_pci_functions(tmp_path / "absent") == []


@pytest.mark.parametrize(
    ("vendor", "kind", "answer"),
    [
        ("10de", "030200", True),
        ("10de", "040300", False),  # the card's sound
        ("1002", "120000", True),
        ("1da3", "120000", True),
        ("1d0f", "088000", True),
        ("1a03", "030000", False),  # a server's own display
        ("14e4", "060400", False),  # a Raspberry Pi's bridge
    ],
)
def test_functions_that_could_need_a_driver_are_recognised(vendor, kind, answer):
    assert hardware.could_need_driver({"vendor": vendor, "class": kind}) is answer


def test_similar_systems_are_read_from_os_release():
    release = hardware.parse_os_release('ID="rocky"\nVERSION_ID="9.6"\nID_LIKE="rhel centos fedora"\n')
    assert release == {"id": "rocky", "version_id": "9.6", "codename": "", "like": "rhel centos fedora"}


def test_secure_boot_is_known_only_with_uefi(tmp_path):
    assert hardware.is_secure_boot_enabled(tmp_path) is False
    (tmp_path / "sys/firmware/efi/efivars").mkdir(parents=True)
    assert hardware.is_secure_boot_enabled(tmp_path) is None
    for state in (0, 1):
        (tmp_path / hardware.SECURE_BOOT).write_bytes(bytes([6, 0, 0, 0, state]))
        assert hardware.is_secure_boot_enabled(tmp_path) is bool(state)


@pytest.mark.parametrize(("text", "version"), [(CLOSED, "535.261.03"), (OPEN, "580.95.05")])
def test_loaded_driver_version_is_read_for_nvidia_and_amd(tmp_path, text, version):
    write(tmp_path, {"sys/module/nvidia/refcnt": "0\n", "proc/driver/nvidia/version": text})
    assert hardware.read_gpu_module_versions(tmp_path) == {"nvidia": version}


def test_module_without_a_version_counts_as_loaded(tmp_path):
    write(tmp_path, {"sys/module/nouveau/refcnt": "4\n", "sys/module/amdgpu/version": "6.16.13\n"})
    assert hardware.read_gpu_module_versions(tmp_path) == {"nouveau": None, "amdgpu": "6.16.13"}


def test_newest_kernel_of_the_same_flavour_is_found(tmp_path):
    for name in ("6.1.0-9-amd64", "6.1.0-50-amd64", "6.1.0-37-amd64"):
        (tmp_path / "lib/modules" / name).mkdir(parents=True)
    assert hardware.find_newest_kernel(tmp_path, "6.1.0-37-amd64") == "6.1.0-50-amd64"
    assert hardware.find_newest_kernel(tmp_path / "absent", "6.8.0-55-generic") == "6.8.0-55-generic"


def test_cloud_kernel_is_another_flavour_than_the_generic_one(tmp_path):
    for name in ("6.1.0-50-amd64", "6.1.0-51-cloud-amd64"):
        (tmp_path / "lib/modules" / name).mkdir(parents=True)
    assert hardware.find_newest_kernel(tmp_path, "6.1.0-50-amd64") == "6.1.0-50-amd64"


def test_kernel_headers_are_present_only_with_their_makefile(tmp_path):
    (tmp_path / "lib/modules/6.1.0-50-amd64").mkdir(parents=True)
    assert not hardware.has_kernel_headers(tmp_path, "6.1.0-50-amd64")
    write(tmp_path, {"usr/src/linux-headers-6.1.0-50-amd64/Makefile": ""})
    assert hardware.has_kernel_headers(tmp_path, "6.1.0-50-amd64")


def test_madison_output_gives_each_version_once_without_source_packages():
    assert hardware.parse_apt_madison(MADISON) == {
        "nvidia-open": ["580.95.05-1", "570.124.06-1"],
        "nvidia-smi": ["535.261.03-1"],
    }


class FakeModule:
    """What the module's functions use of AnsibleModule: options, and answers of commands."""

    def __init__(self, fetch, check=False, **answers):
        self.params, self.check_mode, self.answers = {"fetch": fetch}, check, answers
        self.commands, self.warnings = [], []

    def run_command(self, argv):
        self.commands.append(argv)
        return 0, self.answers.get(argv[1].replace("-", "_"), ""), ""

    def warn(self, text):
        self.warnings.append(text)


def test_missing_package_lists_are_not_reported_as_no_packages(tmp_path, monkeypatch):
    """A new cloud image has none: the refusal "no such package" would be wrong there."""
    monkeypatch.setattr(hardware.dpkg, "LISTS", tmp_path)
    fake_module = FakeModule(fetch=False, pkgnames="nvidia-open\n", madison=MADISON)
    assert (
        hardware.read_debian_driver_packages(fake_module, "6.1.0-50-amd64", with_candidates=True)[2] is None
    )
    (tmp_path / "deb.debian.org_debian_dists_bookworm_main_binary-amd64_Packages").touch()
    assert hardware.read_debian_driver_packages(fake_module, "6.1.0-50-amd64", with_candidates=True)[2] == {
        "nvidia-open": ["580.95.05-1", "570.124.06-1"],
        "nvidia-smi": ["535.261.03-1"],
    }


@pytest.mark.parametrize(
    ("fetch", "check", "fetched"), [(True, False, 1), (True, True, 0), (False, False, 0)]
)
def test_package_lists_are_fetched_only_on_request_and_never_in_check_mode(
    tmp_path, monkeypatch, fetch, check, fetched
):
    calls = []
    monkeypatch.setattr(hardware.dpkg, "LISTS", tmp_path)
    monkeypatch.setattr(hardware.locks, "wait_for_package_locks", lambda max_seconds: None)
    monkeypatch.setattr(
        hardware.dpkg, "fetch_package_lists", lambda sources: calls.append(sources) or "no route to host"
    )
    fake_module = FakeModule(fetch=fetch, check=check)
    hardware.read_debian_driver_packages(fake_module, "6.1.0-50-amd64", with_candidates=True)
    assert len(calls) == fetched
    assert fake_module.warnings == ["package lists could not be fetched: no route to host"] * fetched


def test_all_packages_of_driver_plans_are_looked_up():
    """What the tables call packages must match the module's pattern, or no version would be known."""
    from gpufleet.drivers.data_file import load_system_package_tables

    for key, system in load_system_package_tables().items():
        if system["manager"] != "apt":
            continue
        for entry in (system.get("nvidia") or {}).values():
            names = [name for kind in ("open", "proprietary") for name in entry["sets"][0][kind]]
            names += [*(entry.get("fabric_manager") or ()), *(entry.get("pinning") or ())]
            names += [*(entry.get("cuda_packages") or ()), *(entry.get("compat_packages") or ())]
            names += [*(entry.get("imex") or ())]
            flavours = [*entry.get("flavours", ()), *entry.get("x86_64_flavours", ()), "generic-hwe-24.04"]
            for name, flavour in itertools.product(names, flavours):
                real = name.format(branch=580, flavour=flavour, major=12, minor=8)
                assert hardware.CANDIDATE.match(real), (key, real)
        amd = system["amd"]
        own_rocm = amd.get("rocm", {}).get("distribution", {}).get("packages", ())
        metas = [row["meta"] for row in system.get("kernels", ())]
        distribution = [*amd["distribution"]["packages"], *amd["distribution"]["vulkan"]]
        for name in [*distribution, *own_rocm, *metas, *system["meta"].values()]:
            assert hardware.CANDIDATE.match(name), (key, name)


def test_headers_of_proxmox_are_looked_up_with_the_kernel_s_release(tmp_path, monkeypatch):
    monkeypatch.setattr(hardware.dpkg, "LISTS", tmp_path)
    (tmp_path / "download.proxmox.com_debian_pve_dists_trixie_Packages").touch()
    names = [
        f"{name}-{release}"
        for name in ("proxmox-headers", "pve-headers", "linux-headers")
        for release in ("6.14.11-4-pve", "6.17.13-2-pve")
    ]
    fake_module = FakeModule(fetch=False, pkgnames="\n".join([*names, "proxmox-default-headers"]))
    hardware.list_apt_candidates(fake_module, "6.14.11-4-pve")
    assert fake_module.commands[-1][2:] == [
        "linux-headers-6.14.11-4-pve", "proxmox-default-headers", "proxmox-headers-6.14.11-4-pve",
        "pve-headers-6.14.11-4-pve",
    ]  # fmt: skip


def test_headers_of_one_kernel_are_named_with_their_version_on_dnf(monkeypatch):
    listing = "".join(
        f"{name}\t0:{version}\n"
        for name, version in (
            ("kernel6.12-devel", "6.12.37-61.105.amzn2023"),
            ("kernel-64k-devel", "5.14.0-570.12.1.el9_6"),
            ("kernel-devel-matched", "5.14.0-570.12.1.el9_6"),
        )
    )
    monkeypatch.setattr(hardware.platform, "machine", lambda: "aarch64")
    offered = hardware.list_dnf_candidates(
        FakeModule(fetch=False, _q=listing), "6.12.37-61.105.amzn2023.aarch64"
    )
    assert offered["kernel6.12-devel-6.12.37-61.105.amzn2023.aarch64"] == ["6.12.37-61.105.amzn2023"]
    assert offered["kernel-64k-devel-5.14.0-570.12.1.el9_6.aarch64"] == ["5.14.0-570.12.1.el9_6"]
    assert set(offered) - {"kernel6.12-devel", "kernel-64k-devel", "kernel-devel-matched"} == {
        "kernel6.12-devel-6.12.37-61.105.amzn2023.aarch64",
        "kernel-64k-devel-5.14.0-570.12.1.el9_6.aarch64",
    }


def test_processors_with_firmware_files_are_found_compressed_or_not(tmp_path):
    folder = tmp_path / "lib/firmware/amdgpu"
    files = (
        "gc_11_0_3_mes_2.bin",
        "gc_12_0_1_rlc.bin.zst",
        "sienna_cichlid_sos.bin.xz",
        "cyan_skillfish2_ce.bin",
    )
    write(tmp_path, {f"lib/firmware/amdgpu/{name}": "" for name in (*files, "README", "isp_4_1_1.bin")})
    assert folder.is_dir()
    assert hardware.list_firmware_processors(tmp_path) == [
        "cyan_skillfish2", "gc_11_0_3", "gc_12_0_1", "sienna_cichlid",
    ]  # fmt: skip
    assert hardware.list_firmware_processors(tmp_path / "nothing") == []


def test_driver_plan_is_computed_through_ansible(run_play, tmp_path):
    """Both plugins as a playbook uses them: a plan, a refusal as one line, or as a plan when asked so; no fact."""
    root = tmp_path / "host"
    write(root, {"etc/os-release": 'ID=debian\nVERSION_ID="12"\nVERSION_CODENAME=bookworm\n'})
    place(root / "bus", {"0000:11:00.0": function(device="0x1eb8")})
    place(root / "strange", {"0000:11:00.0": function(device="0xfffe")})

    def look(bus):
        return {
            "gpufleet.fleet.hardware": {"root": str(root), "pci_root": str(root / bus), "candidates": False}
        }

    plan = {"hardware": "{{ seen.hardware }}"}
    result = run_play(
        look("bus") | {"register": "seen"},
        {
            "gpufleet.fleet.driver_plan": plan | {"requested_software": {"cuda": "12.8"}},
            "register": "planned",
        },
        look("strange") | {"register": "seen"},
        {"gpufleet.fleet.driver_plan": plan | {"plan_only": True}, "register": "told"},
        {"gpufleet.fleet.driver_plan": plan, "register": "refused", "ignore_errors": True},
        {"gpufleet.fleet.driver_plan": {"hardware": {"pci": []}}, "register": "wrong", "ignore_errors": True},
        {
            "gpufleet.fleet.driver_plan": plan | {"requested_software": "nvidia"},
            "register": "a_word",
            "ignore_errors": True,
        },
        {"ansible.builtin.assert": {"that": EXPECTED}},
    )
    assert result.returncode == 0, result.stdout + result.stderr
