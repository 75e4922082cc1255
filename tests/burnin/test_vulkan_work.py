"""The check gpu_vulkan from end to end on lavapipe: what it finds, what it refuses, and that it is marked."""

import copy
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpufleet.burnin.agent.card_work import bound_tested_bytes
from gpufleet.burnin.agent.host import HostAccess
from gpufleet.burnin.agent.vulkan_device import PhysicalDevice
from gpufleet.burnin.checks.gpu_vulkan import measure as gpu_vulkan
from gpufleet.burnin.checks.gpu_vulkan.measure import explain_skip
from gpufleet.burnin.thresholds import select_thresholds
from gpufleet.burnin.verdict import judge_attempt, judge_check
from vulkan_software import build_environment, needs_lavapipe

SMALL = {
    "vulkan_devices": "cpu",
    "card_seconds": 0.01,
    "card_size": 256,
    "card_chunk_mib": 1,
    "card_memory_share": 0.01,
    "ignore_busy": 1,
    "card_copy_mib": 1,
}
BASES = Path(__file__).parents[1] / "cases/burnin/bases"
SETTINGS = "khronos_validation.report_flags = error,warn,perf,info\nkhronos_validation.log_filename = {}\n"


@pytest.fixture(scope="module")
def measure(agent, tmp_path_factory):
    """Give the function that runs the check and returns its record."""
    lock = tmp_path_factory.mktemp("agent-lock") / "lock"

    def run(env=(), **params):
        argv = [sys.executable, str(agent), "run", "--attempt", "a", "--lock", str(lock)]
        argv += ["--only", "gpu_vulkan"]
        for name, value in {**SMALL, **params}.items():
            argv += ["-p", f"{name}={value}"]
        environment = build_environment(**dict(env))
        done = subprocess.run(argv, capture_output=True, text=True, env=environment, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        records = [json.loads(line) for line in done.stdout.splitlines()]
        return next(record for record in records if record["type"] == "check")

    return run


@pytest.fixture(scope="module")
def validated(measure, tmp_path_factory):
    """Run the check once under Khronos' validation layer, where it is installed."""
    folder = tmp_path_factory.mktemp("layer")
    (folder / "vk_layer_settings.txt").write_text(SETTINGS.format(folder / "log"))
    layer = {"VK_INSTANCE_LAYERS": "VK_LAYER_KHRONOS_validation", "VK_LAYER_SETTINGS_PATH": str(folder)}
    record = measure(layer)
    if (record["status"], "LAYER_NOT_PRESENT" in record["reason"]) == ("error", True):
        pytest.skip("vulkan-validationlayers is not installed")
    return record, (folder / "log").read_text()


@needs_lavapipe
def test_lavapipe_computes_everything_right(validated):
    record, _ = validated
    (device,) = record["raw"]["devices"]
    assert (device["type"], device["clock"]) == ("cpu", "device")
    for kind, product in zip(("u32", "f32"), device["matmul"], strict=True):
        assert (product["kind"], product["size"], product["wrong_vectors"]) == (kind, 256, 0)
        assert product["exact"] == {
            "rows": 256, "wrong_rows": 0, "fractions": 0, "samples": 8, "wrong_samples": 0
        }  # fmt: skip
        assert product["runs"] >= product["batch"] > 1
    assert set(device["memory"]["wrong_vectors"]) == {"address", "inverse", "00", "ff", "55", "aa", "copy"}
    assert not any(device["memory"]["wrong_vectors"].values())
    assert device["memory"]["tested_bytes"] > 1 << 20
    assert device["copy"]["wrong_vectors"] == 0


@needs_lavapipe
def test_khronos_validation_layer_has_nothing_to_report(validated):
    _, log = validated
    assert "Khronos Validation Layer Active" in log
    findings = [line for line in log.splitlines() if "ERROR" in line or "WARN" in line or "PERF" in line]
    assert findings == []


@needs_lavapipe
def test_the_drill_flips_bits_that_are_found(measure):
    (device,) = measure(gpu_flip_bit=1)["raw"]["devices"]
    assert [product["wrong_vectors"] for product in device["matmul"]] == [1, 1]
    assert [product["wrong_bits"] for product in device["matmul"]] == ["00000001"] * 2
    assert [product["first_wrong_vector"] for product in device["matmul"]] == [256 * 256 // 2 // 4] * 2
    wrong = {name: count for name, count in device["memory"]["wrong_vectors"].items() if count}
    assert wrong == {"55": 1}
    (fault,) = device["memory"]["faults"]
    assert (fault["pattern"], fault["bits"], fault["first_vector"]) == ("55", "00000001", (1 << 20) // 32)
    assert device["copy"]["wrong_vectors"] == 1


@needs_lavapipe
def test_a_processor_is_not_a_gpu_unless_it_is_requested(measure):
    record = measure(vulkan_devices="")
    assert (record["status"], record["reason"]) == ("not_run", "no GPU for Vulkan")
    (skipped,) = record["raw"]["skipped"]
    assert skipped["reason"] == "it computes on the CPU"


def test_a_host_without_vulkan_is_not_run(measure):
    record = measure(vulkan_library="/nothing/libvulkan.so")
    assert record["status"] == "not_run"
    assert record["reason"].startswith("Vulkan: ")


def judge(record, **raw):
    """Judge a record as a real run."""
    changed = copy.deepcopy(record)
    changed["raw"] |= raw
    return judge_check(changed, select_thresholds("pi_gpu_bench"), "", False)


@needs_lavapipe
def test_a_record_of_a_processor_never_passes_as_a_gpu(validated):
    result = judge(validated[0])
    assert (result.outcome, result.reason) == ("not_run", "answered by a fake tool")
    assert judge(validated[0], fake=False).outcome == "pass"


@pytest.fixture(scope="module")
def losing_library(tmp_path_factory):
    """Compile a loader whose device is lost after a few waits."""
    compiler = shutil.which("cc")
    if compiler is None or not Path("/usr/include/vulkan/vulkan.h").exists():
        pytest.skip("no C compiler, or libvulkan-dev is not installed")
    library = tmp_path_factory.mktemp("vulkan") / "libvulkan.so"
    source = Path(__file__).with_name("fake_vulkan_wait.c")
    flags = ["-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-Wl,--no-as-needed"]
    subprocess.run([compiler, *flags, "-o", library, source, "-lvulkan"], check=True)
    return library


@needs_lavapipe
@pytest.mark.parametrize(
    ("code", "reason"),
    [(-4, "vkWaitForFences: VK_ERROR_DEVICE_LOST"), (2, "the GPU did not finish within 30 s")],
)
def test_a_lost_or_hanging_device_fails(measure, losing_library, code, reason):
    record = measure({"FAKE_VULKAN_RESULT": str(code)}, vulkan_library=losing_library)
    assert record["raw"]["devices"] == [{"failed": reason, "code": code}]
    result = judge(record)
    assert (result.outcome, result.reason) == (
        "fail",
        "the driver lost a GPU or a GPU hung under load (1 GPUs)",
    )


FAULTS = [
    ({"matmul.0.wrong_vectors": 1}, "computed a wrong result"),
    ({"matmul.1.exact.wrong_rows": 1}, "computed a wrong result"),
    ({"matmul.1.exact.fractions": 1}, "computed a wrong result"),
    ({"matmul.0.exact.wrong_samples": 1}, "computed a wrong result"),
    ({"memory.wrong_vectors.aa": 1}, "read back wrong"),
    ({"copy.wrong_vectors": 1}, "arrived wrong"),
    (
        {"errors_before": {"ecc_uncorrected": 0}, "errors_after": {"ecc_uncorrected": 2}},
        "uncorrected ECC errors",
    ),
]
UNKNOWN = [
    ({"matmul": []}, "u32 wrong_rows is not a count"),
    ({"matmul.1.runs": 0}, "f32 runs is not a count"),
    ({"matmul.1.exact.wrong_rows": None}, "f32 wrong_rows is not a count"),
    ({"memory": {}}, "no pattern was tested"),
    ({"memory.tested_bytes": 1}, "free bytes were tested"),
    ({"copy": {}}, "copies is not a count"),
    (
        {"errors_before": {"ecc_uncorrected": 0}, "errors_after": {}},
        "ecc_uncorrected could be read only once",
    ),
]
SLOT = {
    "card": {"max_link_width": "16", "max_link_speed": "16.0 GT/s PCIe"},
    "port": {"max_link_width": "16", "max_link_speed": "8.0 GT/s PCIe"},
}
LINK = {"link_lanes": [8, 8], "link_generation": [1, 3]}


def judge_changed(record, changes, **raw):
    """Judge a record as one of a real card, with values changed by dotted path."""
    changed = copy.deepcopy(record)
    for path, value in changes.items():
        *parents, last = path.split(".")
        place = changed["raw"]["devices"][0]
        for name in parents:
            place = place[int(name)] if isinstance(place, list) else place[name]
        place[last] = value
    return judge(changed, fake=False, **raw)


@needs_lavapipe
@pytest.mark.parametrize(("changes", "meaning"), FAULTS)
def test_a_wrong_result_fails(validated, changes, meaning):
    result = judge_changed(validated[0], changes)
    assert result.outcome == "fail"
    assert meaning in result.reason


@needs_lavapipe
@pytest.mark.parametrize(("changes", "reason"), UNKNOWN)
def test_what_was_not_measured_never_passes(validated, changes, reason):
    result = judge_changed(validated[0], changes)
    assert result.outcome == "not_run"
    assert reason in result.reason


@needs_lavapipe
def test_a_link_is_judged_under_load_against_card_and_slot(validated):
    series = {"extremes": LINK, "count": 1, "event_reasons_seen": 0}
    result = judge_changed(validated[0], {"slot": SLOT, "copy.series": series})
    assert result.outcome == "warn"
    assert "fewer lanes" in result.reason
    assert "generation" not in result.reason


@needs_lavapipe
def test_equal_cards_with_different_products_fail(validated):
    other = copy.deepcopy(validated[0]["raw"]["devices"][0])
    other["matmul"][1]["checksum"] = "00000000"
    devices = [validated[0]["raw"]["devices"][0], other]
    assert "different products" in judge(validated[0], fake=False, devices=devices).reason


@needs_lavapipe
@pytest.mark.parametrize("answer", [{"busy": "process 7 uses the GPU"}, {"error": "exceeded"}, {}])
def test_an_untested_card_is_never_a_pass_and_hides_no_fault(validated, answer):
    (device,) = copy.deepcopy(validated[0]["raw"]["devices"])
    assert judge(validated[0], fake=False, devices=[device, answer]).outcome == "not_run"
    device["copy"]["wrong_vectors"] = 1
    assert judge(validated[0], fake=False, devices=[device, answer]).outcome == "fail"


@needs_lavapipe
@pytest.mark.parametrize(
    ("vendor", "cards", "outcome"), [("1002", 1, "pass"), ("1002", 2, "not_run"), ("8086", 1, "not_run")]
)
def test_a_card_that_vulkan_does_not_show_is_no_pass(validated, vendor, cards, outcome):
    addresses = ["0000:03:00.0", "0000:04:00.0"][:cards]
    result = judge_changed(validated[0], {"vendor": vendor}, amd_on_bus=addresses)
    assert (result.outcome, "was not tested" in result.reason) == (outcome, outcome == "not_run")


@needs_lavapipe
def test_an_amd_card_on_the_bus_does_not_ask_for_nvidias_checks(validated):
    records = json.loads((BASES / "cloud_vm.json").read_text())["records"]
    checks = [record for record in records if record.get("name") != "gpu_vulkan"]
    own = copy.deepcopy(validated[0])
    own["raw"]["amd_on_bus"] = ["0000:03:00.0"]
    report = judge_attempt([*checks[:-1], own, checks[-1]], "cloud_vm", "quick", is_configured=True)
    assert "gpu_compute" not in report.required


@pytest.mark.parametrize(
    ("hip", "vulkan", "verdict", "required"),
    [
        ("absent", "pass", "healthy", "gpu_vulkan"),
        ("not_run", "pass", "healthy", "gpu_vulkan"),
        ("pass", "not_run", "healthy", "gpu_hip"),
        ("not_run", "not_run", "incomplete", "gpu_hip"),
        ("absent", "absent", "incomplete", "gpu_vulkan"),
        ("fail", "pass", "faulty", "gpu_hip"),
        ("pass", "fail", "faulty", "gpu_hip"),
    ],
)
def test_an_amd_card_must_have_worked_through_hip_or_vulkan(hip, vulkan, verdict, required):
    records = json.loads((BASES / "pi_gpu_bench.json").read_text())["records"]
    work = next(record for record in records if record.get("name") == "gpu_vulkan")
    records.remove(work)
    for name, outcome in (("gpu_hip", hip), ("gpu_vulkan", vulkan)):
        record = copy.deepcopy(work) | {"name": name, "status": "not_run" if outcome == "not_run" else "ran"}
        if outcome == "fail":
            record["raw"]["devices"][0]["copy"]["wrong_vectors"] = 1
        if outcome != "absent":
            records.insert(-1, record)
    report = judge_attempt(records, "pi_gpu_bench", "quick", is_configured=True)
    assert report.verdict == verdict
    assert required in report.required


def make_device(**changes):
    """Return a physical device as RADV shows one."""
    fields = {
        "handle": None, "name": "AMD Radeon RX 6500 XT", "vendor": 0x1002, "device": 0x743F, "kind": 2,
        "api": (1, 3), "driver": "radv", "bus_id": "0000:03:00.0", "limits": {}, "extensions": frozenset(),
        "max_allocation": 1 << 31,
    }  # fmt: skip
    return PhysicalDevice(**{**fields, **changes})


@pytest.mark.parametrize(
    ("device", "requested", "reason"),
    [
        (make_device(), "", ""),
        (make_device(kind=1, vendor=0x8086), "", ""),
        (make_device(kind=3), "", ""),
        (make_device(kind=0), "", "its driver does not say that it is a GPU"),
        (make_device(kind=4, bus_id=""), "", "it computes on the CPU"),
        (make_device(kind=4, bus_id=""), "cpu", ""),
        (make_device(vendor=0x10DE), "", "NVIDIA cards are tested through CUDA"),
        (make_device(vendor=0x10DE), "nvidia", ""),
        (make_device(bus_id="0000:09:00.0"), "", "another driver shows the same card"),
    ],
)
def test_real_gpus_without_cuda_are_chosen(device, requested, reason):
    assert explain_skip(device, set(requested.split(",")), ["0000:09:00.0", ""]) == reason


@pytest.mark.parametrize(("kind", "expected"), [("discrete", 900), ("integrated", 250), ("cpu", 250)])
def test_a_device_that_shares_the_hosts_memory_gets_a_quarter_of_it(tmp_path, kind, expected):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 4000 kB\nMemAvailable: 1000 kB\n")
    host = HostAccess(root=str(tmp_path))
    assert bound_tested_bytes(host, kind, 1000 << 10) == expected << 10


def test_a_driver_that_hangs_or_dies_costs_only_this_check(monkeypatch, tmp_path):
    host = HostAccess(root=str(tmp_path))
    monkeypatch.setattr(gpu_vulkan, "LIST_SECONDS", 0.2)
    monkeypatch.setattr(gpu_vulkan, "list_devices", lambda _host: time.sleep(60))
    result = gpu_vulkan.measure_host(host)
    assert (result.status, result.reason) == ("error", "the check exceeded its time limit and was stopped")
    monkeypatch.setattr(gpu_vulkan, "LIST_SECONDS", 60)
    monkeypatch.setattr(gpu_vulkan, "list_devices", lambda _host: os.kill(os.getpid(), signal.SIGKILL))
    result = gpu_vulkan.measure_host(host)
    assert (result.status, result.reason) == ("error", "the process of the check died (signal 9)")
