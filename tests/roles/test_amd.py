"""Test AMD cards on booted hosts: the driver plan, fake ROCm packages, and Vulkan from Debian for an old card."""

from __future__ import annotations

PLAYS = ("amd",)


def role_report(runs, host):
    return next(
        r.output["msg"] for r in runs.second.results_of(host) if r.task == f"What rocm found on {host}"
    )


def test_both_cards_converge_and_the_second_run_changes_nothing(converge_play):
    converge_play("amd").assert_idempotent()


def test_instinct_cards_get_rocm_under_its_new_name(converge_play, lab):
    report = role_report(converge_play("amd"), "amd01")
    host = lab.host("amd01")
    assert host.package("amdrocm10.0-gfx942").version == report["plan"]["rocm"]["packages"][0]["version"]
    assert "FAKE" in host.check_output("dpkg-query -W -f '${Description}' amdrocm10.0-gfx942")
    assert host.package("firmware-amd-graphics").is_installed
    assert report["found"]["rocminfo"] == "/opt/rocm/core-10.0/bin/rocminfo"


def test_missing_card_is_reported(converge_play):
    report = role_report(converge_play("amd"), "amd01")
    assert report["not_applied"] == {
        "kfd": "there is no /dev/kfd: no amdgpu driver is loaded",
        "rocminfo": "ROCk module is NOT loaded, possibly no GPU devices",
        "operator nobody-here": "there is no such user or group",
        "gpu_settings": "applied at the next boot; no card of amdgpu is in /sys/class/drm",
    }


def test_gpu_settings_wait_for_a_card_and_do_not_fail_the_boot_of_a_container(converge_play, lab):
    converge_play("amd")
    unit = lab.host("amd01").file("/etc/systemd/system/gpufleet-gpu-settings.service")
    assert "ConditionVirtualization=!container" in unit.content_string
    assert lab.host("amd01").service("gpufleet-gpu-settings").is_enabled


def test_operators_may_use_the_device_files(converge_play, lab):
    converge_play("amd")
    host = lab.host("amd01")
    assert {"render", "video"} <= set(host.user("backup").groups)
    rules = host.file("/etc/udev/rules.d/70-gpufleet-amdgpu.rules").content_string
    assert 'KERNEL=="kfd", GROUP="render", MODE="0660"' in rules
    assert "/opt/rocm" in host.file("/etc/profile.d/gpufleet-rocm.sh").content_string


def test_card_without_rocm_support_gets_vulkan_from_debian_and_a_reason(converge_play, lab):
    report = role_report(converge_play("amd"), "amd02")
    host = lab.host("amd02")
    assert report["plan"]["rocm"] is None
    assert "gfx803" in report["not_applied"]["rocm"]
    assert "Vulkan" in report["not_applied"]["rocm"]
    assert host.file("/usr/share/vulkan/icd.d/radeon_icd.x86_64.json").exists
    assert "FAKE" not in host.check_output("dpkg-query -W -f '${Description}' mesa-vulkan-drivers")
    assert not host.file("/etc/profile.d/gpufleet-rocm.sh").exists
