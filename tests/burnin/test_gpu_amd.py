"""Test AMD servers and VMs from sysfs to the verdict.

The trees follow the kernel's documentation (docs.kernel.org, gpu/amdgpu): ras.rst for error counts and bad pages,
thermal.rst for hwmon, driver-misc.rst for memory. The memory size is what ROCm/amdsmi's unit tests record of a MI300X.
"""

from __future__ import annotations

import copy

import pytest

from gpufleet import burnin
from gpufleet.burnin.agent.command import CommandOutput
from gpufleet.burnin.agent.host import HostAccess
from gpufleet.burnin.checks.gpu_amd import measure as gpu_amd
from gpufleet.burnin.checks.gpu_xid import measure as gpu_xid
from gpufleet.burnin.checks.hardware import measure as hardware
from gpufleet.burnin.kernel_event import read_kernel_events
from gpufleet.burnin.readings import extract_check_metrics

NVIDIA_CHECKS = ["gpu_compute", "gpu_memory", "gpu_copy", "gpu_nvidia"]
MI300X, MI300X_VF, RX_7900 = "0x74a1", "0x74b5", "0x744c"
CARD = {
    "vendor": "0x1002",
    "device": MI300X,
    "class": "0x120000",
    "mem_info_vram_total": "206141652992",
    "mem_info_vram_used": "297611264",
    "gpu_busy_percent": "0",
    "unique_id": "a1b2c3d4e5f60718",
    "current_compute_partition": "SPX",
    "ras/features": "feature mask: 0x3fff",
    "ras/umc_err_count": "ue: 0\nce: 3",
    "ras/gfx_err_count": "ue: 0\nce: 0",
    "ras/gpu_vram_bad_pages": "",
    "hwmon/hwmon4/temp2_label": "junction",
    "hwmon/hwmon4/temp2_input": "45000",
    "hwmon/hwmon4/temp2_crit": "100000",
}
WITHOUT_RAS = {name: None for name in CARD if name.startswith("ras/")}
EXPECTED = {"expect_amd_gpus": 8, "expect_gpu_models": "Instinct MI300X"}


@pytest.fixture
def judge_server(tmp_path, records_of):
    """Give a function that judges a server with AMD cards; ``change`` is of the first card's files."""

    def judge(change=None, *, count=8, driver="amdgpu", log="", expected=EXPECTED, kind="gpu_server"):
        for number in range(count):
            base = tmp_path / f"sys/bus/pci/devices/0000:{0x05 + number:02x}:00.0"
            files = {**CARD, **((change or {}) if number == 0 or "device" in (change or {}) else {})}
            for name, text in files.items():
                if text is not None:
                    (base / name).parent.mkdir(parents=True, exist_ok=True)
                    (base / name).write_text(f"{text}\n")
            if driver and not (number and driver != "amdgpu"):
                target = tmp_path / "sys/bus/pci/drivers" / driver
                target.mkdir(parents=True, exist_ok=True)
                (base / "driver").symlink_to(target)
            elif driver:
                target = tmp_path / "sys/bus/pci/drivers/amdgpu"
                target.mkdir(parents=True, exist_ok=True)
                (base / "driver").symlink_to(target)
        (tmp_path / "sys/kernel").mkdir(parents=True, exist_ok=True)

        def run(argv, _seconds, consume=None):
            for line in log.splitlines():
                consume(line)
            return CommandOutput(0, "", "")

        host = HostAccess(root=str(tmp_path), run=run, which=lambda _tool: None)
        checks = {
            "hardware": hardware.measure_host,
            "gpu_amd": gpu_amd.measure_host,
            "gpu_xid": gpu_xid.measure_host,
        }
        records = records_of({"base": kind, "drop": [*NVIDIA_CHECKS, *checks]})
        for name, check in checks.items():
            result = check(host)
            record = {"type": "check", "name": name, "status": result.status, "reason": result.reason}
            records.insert(-1, {**record, "raw": result.raw})
        bench = records_of({"base": "pi_gpu_bench"})
        work = next(record for record in bench if record.get("name") == "gpu_vulkan")
        records.insert(-1, {**work, "name": "gpu_hip"})
        return burnin.judge_attempt(records, kind, "quick", expected=expected)

    return judge


def test_healthy_server_with_instinct_cards_is_healthy(judge_server):
    report = judge_server()
    assert report.verdict == "healthy", report.list_unhealthy_reasons()
    assert {"gpu_amd", "gpu_hip", "gpu_xid", "hardware"} <= set(report.required)
    assert not {*NVIDIA_CHECKS} & set(report.required)


@pytest.mark.parametrize("expected", [{"expect_amd_gpus": 1}, {}])
def test_healthy_vm_with_a_virtual_function_is_healthy(judge_server, expected):
    change = {"device": MI300X_VF, **WITHOUT_RAS, "hwmon/hwmon4/temp2_crit": None}
    report = judge_server(change, count=1, expected=expected, kind="cloud_vm")
    assert report.verdict == "healthy", report.list_unhealthy_reasons()
    assert "gpu_amd" in report.required


def test_healthy_consumer_card_needs_no_error_counters(judge_server):
    change = {"device": RX_7900, "class": "0x030000", "mem_info_vram_total": "25753026560", **WITHOUT_RAS}
    report = judge_server(change, count=1, expected={}, kind="cloud_vm")
    assert report.verdict == "healthy", report.list_unhealthy_reasons()


@pytest.mark.parametrize(
    ("change", "verdict", "reason"),
    [
        ({"ras/umc_err_count": "ue: 0\nce: 4210"}, "healthy", ""),  # recorded: AMD publishes no bound
        ({"xgmi_error": "0"}, "healthy", ""),
        ({"xgmi_error": "2"}, "degraded", "xGMI links of a GPU had errors (1 GPUs): 0000:05:00.0"),
        (
            {"ras/xgmi_wafl_err_count": "ue: 3\nce: 0"},
            "faulty",
            "0000:05:00.0 xgmi_wafl 3",
        ),  # rocm-systems #11468
        (
            {"xgmi_hive_info/xgmi_hive_id": "0"},
            "degraded",
            "is not linked by xGMI as most others are (1 GPUs)",
        ),
    ],
)
def test_links_and_corrected_errors_of_instinct_cards(judge_server, monkeypatch, change, verdict, reason):
    if any("hive" in name for name in change):
        monkeypatch.setitem(CARD, "xgmi_hive_info/xgmi_hive_id", "12345678901234")
    report = judge_server(change)
    assert report.verdict == verdict
    assert reason in report.find_check_result("gpu_amd").reason


FAULTS = [
    ({"ras/umc_err_count": "ue: 1\nce: 0"}, "uncorrected errors since the driver loaded (1 errors)"),
    ({"ras/gfx_err_count": "ue: 2\nce: 0"}, "uncorrected errors since the driver loaded (2 errors)"),
    ({"ras/aca_umc": "ue: 4\nce: 0\nde: 0"}, "uncorrected errors since the driver loaded (4 errors)"),
    ({"ras/gpu_vram_bad_pages": "0x00000001 : 0x00001000 : R\n0x00000002 : 0x00001000 : P"}, "in use (1 pages)"),
    ({"ras/gpu_vram_bad_pages": "0x00000002 : 0x00001000 : F"}, "bad memory pages are still in use"),
    ({"mem_info_vram_total": "103070826496"}, "a GPU has less memory than its model"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "reason"), FAULTS, ids=[reason for _, reason in FAULTS])
def test_fault_of_one_card_makes_the_server_faulty(judge_server, change, reason):
    report = judge_server(change)
    assert report.verdict == "faulty"
    assert reason in report.find_check_result("gpu_amd").reason


def test_missing_card_and_missing_driver_are_faults(judge_server):
    assert "an AMD GPU is missing on the PCI bus (1 GPUs)" in "".join(
        judge_server(count=7).list_unhealthy_reasons()
    )


def test_card_without_a_driver_is_a_fault(judge_server):
    report = judge_server(driver="")
    assert report.verdict == "faulty"
    assert "a GPU has no driver bound (8 GPUs)" in report.find_check_result("gpu_amd").reason


@pytest.mark.parametrize("device", ["0x164e", "0x13c0"])
@pytest.mark.parametrize("driver", ["", "vfio-pci"])
def test_processors_own_graphics_need_no_driver(judge_server, device, driver):
    """AlexsJones/llmfit issue #543: the graphics of a Ryzen (1002:13c0) beside the NVIDIA card that does the work."""
    change = dict.fromkeys(CARD) | {"vendor": "0x1002", "device": device, "class": "0x038000"}
    expected = {"expect_amd_gpus": 0, "expect_gpu_models": ""}
    report = judge_server(change, count=1, driver=driver, expected=expected)
    assert report.find_check_result("gpu_amd").outcome == "pass"


# What cannot be read on a server card is never a pass.
UNREADABLE = [
    WITHOUT_RAS,
    {"ras/umc_err_count": "N/A"},
    {"ras/umc_err_count": ""},
    {"ras/features": None},
    {"ras/gpu_vram_bad_pages": None},
    {"ras/gpu_vram_bad_pages": "garbage"},
    {"mem_info_vram_total": None},
]


@pytest.mark.parametrize("change", UNREADABLE)
def test_unreadable_value_of_a_server_card_is_not_run(judge_server, change):
    report = judge_server(change)
    assert (report.verdict, report.find_check_result("gpu_amd").outcome) == ("incomplete", "not_run")


def test_card_that_is_passed_on_to_a_vm_is_not_run(judge_server):
    report = judge_server(driver="vfio-pci")
    assert report.verdict == "incomplete"
    assert "the GPU is bound to vfio-pci" in report.find_check_result("gpu_amd").reason


@pytest.mark.parametrize(
    "change", [{"ras/features": "feature mask: 0x0"}, {"hwmon/hwmon4/temp2_input": "99500"}]
)
def test_disabled_ras_and_heat_are_warnings(judge_server, change):
    assert judge_server(change).verdict == "degraded"


def test_partitioned_card_is_not_judged_by_its_memory(judge_server):
    change = {"current_compute_partition": "CPX", "mem_info_vram_total": "25767706624"}
    assert judge_server(change).verdict == "healthy"


# Lines of public threads: ROCm/legacy-rocm-build 4021 and 1552, ROCm/amdgpu 202.
@pytest.mark.parametrize(
    ("line", "verdict"),
    [
        (
            "amdgpu 0000:05:00.0: {1}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!",
            "faulty",
        ),
        ("[    8.1] amdgpu 0000:05:00.0: amdgpu: Fatal error during GPU init", "faulty"),
        ("[   90.0] amdgpu 0000:05:00.0: amdgpu: GPU reset begin!. Source:  1", "degraded"),
        ("[   87.8] amdgpu 0000:05:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=9261", "degraded"),
        ("[    5.0] amdgpu 0000:05:00.0: amdgpu: RAS: optional ras ta ucode is not available", "healthy"),
    ],
)
def test_kernel_log_of_amd_is_judged(judge_server, line, verdict):
    assert judge_server(log=line).verdict == verdict


def test_long_list_of_retired_pages_keeps_the_pages_in_use():
    retired = "\n".join(f"0x{page:08x} : 0x00001000 : R" for page in range(2000))
    kept = gpu_amd.cut_lines(f"{retired}\n0x00ffffff : 0x00001000 : P")
    assert len(kept) <= gpu_amd.MAX_BAD_PAGE_CHARACTERS
    record = {"devices": [{"device": MI300X, "driver": "amdgpu", "ras": {"bad_pages": kept}}]}
    assert extract_check_metrics("gpu_amd", record).metrics["bad_pages_pending"] == 1.0


@pytest.mark.parametrize(
    "value", [None, 7, "x", [], {"counts": "x"}, {"counts": {"umc": None}, "bad_pages": 3}]
)
def test_hostile_record_is_read_without_an_error(value):
    record = {"devices": [{"device": value, "ras": value, "temperatures": value}, value]}
    readings = extract_check_metrics("gpu_amd", copy.deepcopy(record))
    assert readings.metrics["without_driver"] == 2.0


def test_amd_lines_have_a_class():
    event = read_kernel_events({"lines": ["amdgpu 0000:05:00.0: amdgpu: GPU reset begin!"]})[0]
    assert (event.outcome, event.part_kind, event.position) == ("review", "gpu", "0000:05:00.0")
