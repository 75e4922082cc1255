"""Test memory areas against caches, stress-ng's verification, and the clock."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gpufleet.burnin.agent import stress_ng
from gpufleet.burnin.agent.command import CommandOutput
from gpufleet.burnin.agent.host import HostAccess
from gpufleet.burnin.checks.clock import measure as clock
from gpufleet.burnin.checks.memory import measure as memory
from gpufleet.burnin.readings import extract_check_metrics
from gpufleet.burnin.thresholds import select_thresholds
from gpufleet.burnin.verdict import judge_check

RECORDED = Path(__file__).parents[1] / "cases/burnin/recorded"
STRESS_NG = (RECORDED / "stress_ng/ours-cpu-vm-0.15.txt").read_text()
# chronyd 4.3 of Debian 12 with `local stratum 8`, and without any source: recorded 2026-11-23.
TRACKING = "7F7F0101,,8,1795427487.253440657,{},0.0,0.0,0.000,0.000,0.000,0.0,0.0,0.0,Normal\n"
NO_SOURCE = "00000000,,0,0.000000000,0.000000000,0.0,0.0,0.000,0.000,0.000,1.0,1.0,0.0,Not synchronised\n"
SYNCHRONISED = {"state": 0, "offset": 0, "freq": 0, "maxerror": 1000, "esterror": 0, "status": 0x2001}


def judge(check, raw, kind="gpu_server", *, rehearsal=False):
    rules = select_thresholds(kind, rehearsal=rehearsal)
    return judge_check({"name": check, "status": "ran", "raw": raw}, rules, "", rehearsal)


@pytest.fixture
def make_caches(tmp_path):
    """Give a function that lays out a core's caches and returns the host."""

    def make(*sizes, **params):
        for index, size in enumerate(sizes):
            folder = tmp_path / f"sys/devices/system/cpu/cpu0/cache/index{index}"
            folder.mkdir(parents=True)
            (folder / "size").write_text(f"{size}\n")
        return HostAccess(params=params, root=str(tmp_path))

    return make


@pytest.mark.parametrize(
    ("sizes", "mib"),
    [
        (("32K", "1024K", "32768K"), 32.0),
        (("48K", "2M"), 2.0),
        (("1G",), 1024.0),
        ((), None),
        (("?", ""), None),
    ],
)
def test_largest_cache_is_read(make_caches, sizes, mib):
    assert memory.read_largest_cache_mib(make_caches(*sizes)) == mib


@pytest.mark.parametrize(
    ("requested", "cache", "limit", "area"),
    [
        (512, 32.0, 4096, 512),
        (512, 384.0, 4096, 1536),
        (512, 384.0, 1000, 1000),
        (16, 1.5, 4096, 16),
        (16, None, 99, 16),
    ],
)
def test_area_is_larger_than_the_caches(requested, cache, limit, area):
    assert memory.choose_area_mib(requested, cache, limit) == area


def test_memory_check_tests_and_copies_more_than_the_cache(make_caches, tmp_path):
    host = make_caches("12M", memory_mib=32, memory_seconds=0.0)
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 1048576 kB\nMemAvailable: 1048576 kB\n")
    raw = memory.measure_host(host).raw
    assert (raw["tested_mib"], raw["copy_mib"], raw["largest_cache_mib"]) == (48, 48, 12.0)
    assert extract_check_metrics("memory", raw).metrics["cache_multiple"] == 4.0
    rehearsed = HostAccess(params={**host.params, "rehearsal": True}, root=str(tmp_path))
    raw = memory.measure_host(rehearsed).raw
    assert (raw["tested_mib"], raw["copy_mib"]) == (32, 16)


def memory_record(**parts):
    return {"total_gib": 256.0, "wrong_mib": {"00": 0}, "copy_mb_per_s": 9000.0, **parts}


def test_area_within_the_cache_is_a_warning_and_none_in_a_rehearsal():
    raw = memory_record(largest_cache_mib=96.0, tested_mib=380, copy_mib=190)
    result = judge("memory", raw)
    assert result.outcome == "warn"
    assert "not larger than the caches" in result.reason
    assert judge("memory", raw, rehearsal=True).outcome == "pass"
    assert judge("memory", memory_record(tested_mib=512, copy_mib=16)).outcome == "pass"


DIMMS = {8: 128, 12: 192, 16: 512, 24: 1536, 32: 2048}


@pytest.mark.parametrize(("slots", "declared"), DIMMS.items())
def test_one_missing_module_of_a_server_is_found(slots, declared):
    # A kernel's total of a complete server: 1.6 % are page structures, 2 GiB are firmware and a crash kernel.
    for installed, outcome in ((declared, "pass"), (declared * (slots - 1) / slots, "fail")):
        raw = memory_record(total_gib=installed * (1 - 1 / 64) - 2, expect_memory_gib=declared)
        result = judge("memory", raw)
        assert result.outcome == outcome, result
    assert "less memory than declared" in result.reason
    assert f"): {raw['total_gib']:g} of {declared} GiB" in result.reason


SPARK_BYTES = (
    128_501_256_192,
    127_600_748 * 1024,
)  # github.com/leptonai/gpud/pull/1170, XuehaiPan/nvitop 208


@pytest.mark.parametrize("spark_bytes", SPARK_BYTES)
def test_firmware_of_unified_memory_may_keep_more_than_a_servers(spark_bytes):
    raw = memory_record(total_gib=spark_bytes / 2**30, expect_memory_gib=128.0)
    result = judge("memory", raw, kind="gpu_server")
    assert result.outcome == "pass", result


def test_virtual_machine_may_show_less_than_its_type_says():
    raw = memory_record(total_gib=1100.0, expect_memory_gib=1152.0)
    assert judge("memory", raw, kind="cloud_vm").outcome == "pass"


def test_small_server_may_give_memory_to_a_processors_graphics():
    assert (
        judge("memory", memory_record(total_gib=30.7, expect_memory_gib=32), kind="gpu_server").outcome
        == "pass"
    )
    assert (
        judge("memory", memory_record(total_gib=15.3, expect_memory_gib=32), kind="gpu_server").outcome
        == "fail"
    )


@pytest.mark.parametrize(
    ("code", "text", "outcome", "reason"),
    [
        (0, STRESS_NG, "pass", ""),
        (2, "stress-ng: fail:  [7] vm: detected 1 bit errors", "fail", "wrong memory contents"),
        (1, "unknown option", "not_run", "exited with code 1"),
        (3, "no resources", "not_run", "exited with code 3"),
        (7, STRESS_NG, "not_run", "exited with code 7"),
        (124, "no answer within 40 s", "not_run", "exited with code 124"),
        (0, "", "not_run", "no verified operation"),
        (0, STRESS_NG.replace("43108", "0"), "not_run", "no verified operation"),
    ],
)
def test_stress_ng_exit_code_and_metrics_decide(code, text, outcome, reason):
    result = judge("memory", memory_record(stress_ng={"ran": True, "code": code, "text": text}))
    assert result.outcome == outcome
    assert reason in result.reason


def test_stress_ng_that_was_not_requested_decides_nothing():
    raw = memory_record(stress_ng={"ran": False, "reason": "stress-ng is not installed"})
    assert judge("memory", raw).outcome == "pass"


@pytest.mark.parametrize(
    ("file", "operations"), [("ours-cpu-vm-0.15.txt", 4324.0), ("perfkit-context.txt", 22429.0)]
)
def test_recorded_stress_ng_metrics_are_read(file, operations):
    text = (RECORDED / "stress_ng" / file).read_text()
    raw = memory_record(stress_ng={"ran": True, "code": 0, "text": text})
    assert extract_check_metrics("memory", raw).metrics["stress_ng_operations"] == operations


def test_stress_ng_itself_accepts_the_options():
    if shutil.which("stress-ng") is None:
        pytest.skip("stress-ng is not installed")
    facts = stress_ng.run_stress_ng(
        HostAccess(params={"stress_ng_seconds": 1}), "--vm", "1", "--vm-bytes", "8m", "--vm-method", "all"
    )
    assert judge("memory", memory_record(stress_ng=facts)).outcome == "pass"


def clock_record(kernel=None, text="", code=0, skew=None):
    raw = {"kernel": SYNCHRONISED if kernel is None else kernel, "chrony": {"code": code, "text": text}}
    return raw if skew is None else {**raw, "skew_s": skew}


@pytest.mark.parametrize(
    ("raw", "outcome", "reason"),
    [
        (clock_record(), "pass", ""),
        (clock_record(skew=4.5), "pass", ""),
        (clock_record(skew=-3600.0), "fail", "behind the controller's"),
        (clock_record(skew=3600.0), "fail", "ahead of the controller's"),
        (clock_record({**SYNCHRONISED, "status": 0x40}), "warn", "unsynchronised"),
        (clock_record({**SYNCHRONISED, "state": 5}), "warn", "unsynchronised"),
        (clock_record({"error": "Operation not permitted"}), "not_run", "Operation not permitted"),
        (clock_record({}), "not_run", "no state of the kernel's clock"),
        (clock_record(text=TRACKING.format("-0.250000000")), "warn", "is off"),
        (clock_record(text=TRACKING.format("0.000013000")), "pass", ""),
        (clock_record({**SYNCHRONISED, "offset": 250_000_000}), "warn", "is off"),
        (clock_record({**SYNCHRONISED, "offset": 250_000, "status": 1}), "warn", "is off"),
    ],
)
def test_clock_is_judged(raw, outcome, reason):
    result = judge("clock", raw)
    assert result.outcome == outcome
    assert reason in result.reason


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("506 Cannot talk to daemon\n", 1),
        (NO_SOURCE, 0),
        (TRACKING.format("nan"), 0),
        (TRACKING.format("x"), 0),
        ("", 0),
    ],
)
def test_chrony_without_an_offset_leaves_the_kernel_offset(text, code):
    raw = clock_record({**SYNCHRONISED, "offset": 7_000_000}, text, code)
    assert extract_check_metrics("clock", raw).metrics["offset_ms"] == 7.0


def test_offset_of_chrony_counts_instead_of_the_kernel_offset():
    raw = clock_record({**SYNCHRONISED, "offset": 7_000_000}, TRACKING.format("0.002"))
    assert extract_check_metrics("clock", raw).metrics["offset_ms"] == 2.0


def test_kernel_clock_of_this_machine_is_read():
    raw = clock.measure_host(HostAccess(params={"controller_time": "1"}, which=lambda _tool: None)).raw
    assert 0 <= raw["kernel"]["state"] <= 5
    assert raw["kernel"]["maxerror"] >= 0
    assert raw["skew_s"] > 1e9
    assert raw["chrony"] == {"reason": "chronyc is not installed"}


def test_chrony_is_asked_without_name_lookups():
    calls = []

    def run(argv, _timeout):
        calls.append(argv)
        return CommandOutput(0, TRACKING.format("0.1"), "")

    raw = clock.measure_host(HostAccess(run=run, which=lambda tool: tool)).raw
    assert calls == [["chronyc", "-n", "-c", "tracking"]]
    assert raw["chrony"]["code"] == 0
    assert "skew_s" not in raw
