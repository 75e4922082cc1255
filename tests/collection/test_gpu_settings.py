"""GPU settings against a fake nvidia-smi that refuses what the real one refuses, and against files of amdgpu."""

from __future__ import annotations

import contextlib
import io
import json
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.gpufleet.fleet.plugins.filter.gpu_settings import (
    gpu_settings_files,
    gpu_settings_not_applied,
    list_gpu_settings,
)
from ansible_collections.gpufleet.fleet.plugins.module_utils import gpu_cards, gpu_settings
from ansible_collections.gpufleet.fleet.plugins.modules.gpu_settings import normalize_settings

ROOT = Path(__file__).parents[2]
FAKE = ROOT / "tests/roles/files/nvidia_smi.py"
UTILS = ROOT / "modules/ansible_collections/gpufleet/fleet/plugins/module_utils"
READ_ONLY = ("--query", "--version")


@pytest.fixture
def nvidia(tmp_path, monkeypatch):
    """Return a function that applies rows to fake cards; the fake runs in this process, which saves its start."""
    file = tmp_path / "state.json"
    file.write_text(json.dumps({"gpus": [{"mode": "Disabled", "instances": []} for _ in range(2)]}))
    monkeypatch.setenv("NVIDIA_SMI_STATE", str(file))

    def run_fake(argv, **_options):
        output, status = io.StringIO(), 0
        monkeypatch.setattr(sys, "argv", argv)
        with contextlib.redirect_stdout(output):
            try:
                runpy.run_path(str(FAKE), run_name="__main__")
            except SystemExit as end:
                status = end.code
        return SimpleNamespace(returncode=status, stdout=output.getvalue(), stderr="")

    monkeypatch.setattr(gpu_cards.subprocess, "run", run_fake)

    def apply(*rows, **options):
        return gpu_settings.apply_settings("nvidia", list(rows), record_file=tmp_path / "record", **options)

    def change(**values):
        state = json.loads(file.read_text())
        for gpu in state["gpus"]:
            gpu.update(values)
        file.write_text(json.dumps(state | {key: True for key in values if key in ("no_driver", "is_595")}))

    def read():
        return json.loads(file.read_text())

    return SimpleNamespace(apply=apply, change=change, read=read, record=tmp_path / "record")


def list_writes(state):
    return [call for call in state["calls"] if not call.startswith(READ_ONLY)]


EVERYTHING = {
    "power_limit": 300,
    "graphics_clocks": [345, 1410],
    "memory_clocks": [2619, 2619],
    "application_clocks": [1593, 1410],
    "compute_mode": "exclusive_process",
}


def test_every_setting_is_set_once_and_locks_are_set_again_silently(nvidia):
    first = nvidia.apply(EVERYTHING)
    assert first["changed"]
    assert {"gpu": 0, "setting": "power_limit", "before": "700 W", "after": "300 W"} in first["changes"]
    [gpu, _] = nvidia.read()["gpus"]
    assert (gpu["power_limit"], gpu["applications"]) == (300.0, [1593, 1410])
    assert (gpu["locked_graphics"], gpu["locked_memory"]) == ([345, 1410], [2619, 2619])
    assert gpu["compute_mode"] == "Exclusive_Process"
    count = len(nvidia.read()["calls"])
    second = nvidia.apply(EVERYTHING)
    assert (second["changed"], second["unsupported"], second["needs"]) == (False, [], [])
    again = list_writes({"calls": nvidia.read()["calls"][count:]})
    assert again == ["-i 0 -lgc 345,1410", "-i 0 -lmc 2619,2619", "-i 1 -lgc 345,1410", "-i 1 -lmc 2619,2619"]


def test_removed_settings_return_to_the_card_s_default(nvidia):
    nvidia.apply(EVERYTHING)
    result = nvidia.apply({"devices": [1], "power_limit": 300})
    assert {row["setting"] for row in result["changes"] if row["gpu"] == 0} == set(EVERYTHING)
    first, second = nvidia.read()["gpus"]
    assert (first["power_limit"], second["power_limit"]) == (700, 300)
    assert not {"locked_graphics", "locked_memory", "applications"} & (set(first) | set(second))
    assert first["compute_mode"] == "Default"
    assert nvidia.apply()["changed"]
    assert not nvidia.apply()["changed"]


def test_settings_of_somebody_else_are_left_alone(nvidia):
    nvidia.change(power_limit=500, locked_graphics=[345, 345])
    nvidia.apply({"compute_mode": "prohibited"})
    nvidia.apply()
    assert nvidia.read()["gpus"][0]["power_limit"] == 500
    assert nvidia.read()["gpus"][0]["locked_graphics"] == [345, 345]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (
            {"power_limit": 900},
            "GPU 0, 1 (NVIDIA H100 80GB HBM3): power_limit 900 W must be within 200-700 W",
        ),
        (
            {"power_limit": 199, "devices": [1]},
            "GPU 1 (NVIDIA H100 80GB HBM3): power_limit 199 W must be within",
        ),
        ({"graphics_clocks": [345, 2100]}, "graphics_clocks 345-2100 MHz must be within 345-1980 MHz"),
        ({"graphics_clocks": [1410, 345]}, "graphics_clocks 1410-345 MHz must be"),
        ({"memory_clocks": [2600, 2600]}, "memory_clocks 2600-2600 MHz must be of 1593, 2619 MHz"),
        (
            {"application_clocks": [5001, 1980]},
            "application_clocks 5001,1980 MHz must have a memory clock of 1593, 2619 MHz",
        ),
        ({"application_clocks": [2619, 1400]}, "must be a supported graphics clock within 345-1980 MHz"),
        ({"power_limit": 300, "devices": [2]}, "GPU 2 is declared, the host has 2"),
    ],
)
def test_value_that_a_card_cannot_have_is_refused_before_any_is_set(nvidia, row, reason):
    with pytest.raises(gpu_cards.GpuSettingsError) as refused:
        nvidia.apply({"compute_mode": "prohibited"}, row)
    assert reason in str(refused.value)
    assert list_writes(nvidia.read()) == []


def test_check_mode_reports_the_difference_and_sets_nothing(nvidia):
    result = nvidia.apply({"power_limit": 300}, check_mode=True)
    assert [row["after"] for row in result["changes"]] == ["300 W", "300 W"]
    assert list_writes(nvidia.read()) == []
    assert not nvidia.record.exists()


def test_virtual_cards_report_each_setting_that_they_do_not_have(nvidia):
    nvidia.change(virtual=True)
    result = nvidia.apply(EVERYTHING | {"ecc": False})
    [gpu, _] = nvidia.read()["gpus"]
    assert gpu["compute_mode"] == "Exclusive_Process"
    assert [row["setting"] for row in result["changes"]] == ["compute_mode"] * 2
    assert (
        "GPU 0, 1 (NVIDIA H100XM-80C): power_limit is not supported (nvidia-smi: [N/A])"
        in result["unsupported"]
    )
    assert len(result["unsupported"]) == 5


def test_refusal_that_ends_with_status_0_is_noticed(nvidia):
    nvidia.change(volta=True)
    result = nvidia.apply({"memory_clocks": [2619, 2619]})
    assert not result["changed"]
    assert "Setting locked Memory clocks is not supported for GPU" in result["unsupported"][0]


def test_branch_without_application_clocks_names_what_to_use(nvidia):
    nvidia.change(is_595=True)
    [reason] = nvidia.apply({"application_clocks": [2619, 1980]})["unsupported"]
    assert "[Requested functionality has been deprecated]; use graphics_clocks" in reason


def test_ecc_waits_for_a_restart(nvidia):
    assert nvidia.apply({"ecc": False})["needs"] == [
        "GPU 0, 1 (NVIDIA H100 80GB HBM3): ECC changes with a restart"
    ]
    again = nvidia.apply({"ecc": False})
    assert (again["changed"], len(again["needs"])) == (False, 1)
    nvidia.change(ecc="Disabled")
    assert nvidia.apply({"ecc": False})["needs"] == []
    assert not nvidia.apply()["changed"], "ECC has no default to return to"


def test_driver_that_does_not_answer_is_no_refusal(nvidia):
    nvidia.change(no_driver=True)
    with pytest.raises(gpu_cards.NoAnswerError, match="couldn't communicate with the NVIDIA driver"):
        nvidia.apply({"power_limit": 300})


@pytest.fixture
def amd(tmp_path):
    """Two cards in a copy of sysfs; the second is a virtual function without a power cap."""
    sysfs = tmp_path / "sys"
    for number, address in enumerate(("0000:03:00.0", "0000:83:00.0")):
        device = sysfs / "devices" / address
        (device / "hwmon/hwmon5").mkdir(parents=True)
        (device / "vendor").write_text("0x1002\n")
        (device / "power_dpm_force_performance_level").write_text("auto\n")
        if number == 0:
            for name, watts in {"": 750, "_default": 750, "_min": 0, "_max": 750}.items():
                (device / f"hwmon/hwmon5/power1_cap{name}").write_text(f"{watts * 1_000_000}\n")
        (sysfs / f"class/drm/card{number}").mkdir(parents=True)
        (sysfs / f"class/drm/card{number}/device").symlink_to(device)
    (sysfs / "class/drm/card0-DP-1").mkdir()

    def apply(*rows, **options):
        return gpu_settings.apply_settings(
            "amd", list(rows), sysfs=sysfs, record_file=tmp_path / "record", **options
        )

    return SimpleNamespace(apply=apply, first=sysfs / "devices/0000:03:00.0")


def test_amd_cards_get_power_cap_and_performance_level(amd):
    row = {"power_limit": 550, "performance_level": "high"}
    result = amd.apply(row)
    assert result["changed"]
    assert (amd.first / "hwmon/hwmon5/power1_cap").read_text() == "550000000"
    assert (amd.first / "power_dpm_force_performance_level").read_text() == "high"
    assert result["unsupported"] == ["GPU 1: power_limit is not supported (amdgpu: no power1_cap)"]
    assert not amd.apply(row)["changed"]
    amd.apply()
    assert (amd.first / "hwmon/hwmon5/power1_cap").read_text() == "750000000"
    assert (amd.first / "power_dpm_force_performance_level").read_text() == "auto"


def test_amd_power_cap_out_of_range_is_refused(amd):
    with pytest.raises(gpu_cards.GpuSettingsError, match="GPU 0: power_limit 800 W must be within 0-750 W"):
        amd.apply({"power_limit": 800})


def test_setting_of_the_other_vendor_is_reported(amd):
    assert amd.apply({"ecc": True})["unsupported"] == ["GPU 0, 1: ecc is not a setting of amd cards"]


def test_boot_program_runs_from_the_files_of_the_role(tmp_path):
    """The unit runs `python3 -m gpu.gpu_settings` in the library's folder."""
    (tmp_path / "gpu").mkdir()
    for name in ("gpu_cards.py", "gpu_settings.py"):
        shutil.copy(UTILS / name, tmp_path / "gpu")
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"vendor": "nvidia", "settings": [{"power_limit": 300}]}))
    done = subprocess.run(
        [sys.executable, "-m", "gpu.gpu_settings", config],
        cwd=tmp_path,
        env=os.environ | {"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("nvidia-smi: [Errno 2] No such file")


def test_clocks_are_one_value_or_two():
    assert normalize_settings([{"graphics_clocks": [1410], "ecc": None}]) == [
        {"graphics_clocks": [1410, 1410]}
    ]
    with pytest.raises(gpu_cards.GpuSettingsError, match="application_clocks has 1 values: must be two"):
        normalize_settings([{"application_clocks": [1410]}])


def test_declarations_become_rows():
    assert list_gpu_settings({}) == list_gpu_settings([]) == []
    assert list_gpu_settings({"power_limit": 300}) == [{"power_limit": 300}]
    with pytest.raises(
        AnsibleFilterError, match="gpu_settings_declared is '300 W': must be settings such as"
    ):
        list_gpu_settings("300 W")


ANSWER = {"config": {"vendor": "nvidia", "settings": []}, "container": True, "problem": ""}


@pytest.mark.parametrize(
    ("container", "problem", "expected"),
    [(True, "", False), (True, "no answer", True), (False, "no answer", False)],
)
def test_unit_is_left_out_in_a_container_without_gpus_only(container, problem, expected):
    applied = ANSWER | {"container": container, "problem": problem}
    unit = gpu_settings_files(applied, program={"a.py": "pass\n"})[-1]["content"]
    assert ("ConditionVirtualization=!container" in unit) is expected


def test_reasons_are_reported():
    busy = {"changes": [{}], "unsupported": ["a", "b"], "needs": ["c"]}
    assert gpu_settings_not_applied(busy, is_busy=True, state="assigned") == {
        "gpu_settings": "a job may run here: the node is assigned",
        "gpu_settings_unsupported": "a; b",
        "restart": "c",
    }
    assert gpu_settings_not_applied({"problem": "p"}, is_busy=False, state="") == {
        "gpu_settings": "applied at the next boot; p"
    }
    assert gpu_settings_not_applied({}, is_busy=True, state="assigned") == {}
