"""The check gpu_vulkan from end to end on lavapipe: what it finds, what it refuses, and that it is marked."""

import copy
import json
import subprocess
import sys

import pytest

from gpufleet.burnin.thresholds import select_thresholds
from gpufleet.burnin.verdict import judge_check
from vulkan_software import build_environment, needs_lavapipe

SMALL = {
    "vulkan_devices": "cpu",
    "vulkan_seconds": 0.01,
    "vulkan_size": 256,
    "vulkan_chunk_mib": 1,
    "vulkan_memory_share": 0.002,
    "vulkan_copy_mib": 1,
}
SETTINGS = "khronos_validation.report_flags = error,warn,perf,info\nkhronos_validation.log_filename = {}\n"


@pytest.fixture(scope="module")
def measure(agent):
    """Give the function that runs the check and returns its record."""

    def run(env=(), **params):
        argv = [sys.executable, str(agent), "run", "--attempt", "a", "--only", "gpu_vulkan"]
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
