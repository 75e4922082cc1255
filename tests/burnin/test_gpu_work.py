"""The GPU checks from end to end on a stand-in driver: what they find, what they refuse, and that it is marked."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from cuda_software import build_fake_cuda
from gpufleet.burnin.agent.gpu_device import find_reason_not_to_run
from gpufleet.burnin.agent.host import HostAccess
from gpufleet.burnin.agent.sensor_series import COLUMNS, MAX_SAMPLES, SensorRecorder
from gpufleet.burnin.checks.gpu_compute.measure import RESERVED_BYTES, choose_size

CHECKS = ("gpu_compute", "gpu_memory", "gpu_copy")
SMALL = {
    # Others run their tests on this machine too.
    "ignore_busy": 1,
    "gpu_size": 256,
    "gpu_seconds": 0.01,
    "gpu_memory_seconds": 0.01,
    "gpu_memory_share": 0.1,
    "gpu_chunk_mib": 1,
    "gpu_copy_mib": 1,
    "gpu_copy_seconds": 0.01,
}


@pytest.fixture(scope="module")
def fake_driver(tmp_path_factory):
    """Compile the stand-in driver."""
    return build_fake_cuda(tmp_path_factory.mktemp("cuda") / "libcuda.so.1")


@pytest.fixture(scope="module")
def measure(agent, fake_driver, tmp_path_factory):
    """Give the function that runs the agent's GPU checks and returns their records by name."""

    lock = tmp_path_factory.mktemp("lock") / "lock"

    def run(*checks, env=(), **params):
        argv = [sys.executable, str(agent), "run", "--attempt", "a", "--lock", lock]
        argv += [word for check in checks for word in ("--only", check)]
        parameters = {"gpu_library": fake_driver, **SMALL, **params}
        argv += [word for name, value in parameters.items() for word in ("-p", f"{name}={value}")]
        environment = {**os.environ, "FAKE_CUDA_MIB": "256", **dict(env)}
        done = subprocess.run(argv, capture_output=True, text=True, env=environment, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        records = [json.loads(line) for line in done.stdout.splitlines()]
        return {record["name"]: record for record in records if record["type"] == "check"}

    return run


@pytest.fixture(scope="module")
def healthy(measure):
    """Run all three checks on two healthy GPUs, with every matrix kernel."""
    return measure(*CHECKS, env={"FAKE_CUDA_DEVICES": "2"}, gpu_kernels="all")


def list_devices(record):
    return record["raw"]["devices"]


def test_healthy_gpus_have_no_wrong_result(healthy):
    for device in list_devices(healthy["gpu_compute"]):
        assert [entry["kernel"] for entry in device["matmul"]] == [
            f"matmul_{name}"
            for name in ("bf16_sm_90a", "f16_sm_90a", "bf16_sm_80", "f16_sm_80", "f16_sm_75", "f16_sm_70")
        ]
        for entry in device["matmul"]:
            assert entry["exact"] == {"rows": 256, "wrong_rows": 0, "fractions": 0}
            assert (entry["wrong_vectors"], entry["first_wrong_vector"]) == (0, None)
            assert entry["cublas"]["ran"] is False
        assert {kind: orbit["wrong"] for kind, orbit in device["orbits"].items()} == {"f32": 0, "f64": 0}
    for device in list_devices(healthy["gpu_memory"]):
        assert set(device["wrong_vectors"]) == {"address", "inverse", "00", "ff", "55", "aa", "copy"}
        assert not any(device["wrong_vectors"].values())
        assert device["faults"] == []
    for device in list_devices(healthy["gpu_copy"]):
        assert device["wrong_vectors"] == 0
        assert [(peer["direct"], peer["wrong_vectors"]) for peer in device["peers"]] == [(True, 0)]


def test_equal_gpus_have_equal_checksums(healthy):
    first, second = (
        [entry["checksum"] for entry in device["matmul"]] for device in list_devices(healthy["gpu_compute"])
    )
    assert first == second
    # The same products by different instructions: in the stand-in, the same sums too.
    assert len(set(first)) == 2


def test_what_a_stand_in_gives_is_marked(healthy):
    assert all(record["raw"]["fake"] is True for record in healthy.values())


def test_a_flipped_bit_of_a_product_is_found(measure):
    (device,) = list_devices(measure("gpu_compute", env={"FAKE_CUDA_FLIP": "matmul"})["gpu_compute"])
    first, second = device["matmul"]
    assert (first["exact"]["wrong_rows"], first["wrong_vectors"], first["wrong_bits"]) == (0, 1, "00000001")
    assert first["first_wrong_vector"] == 256 * 256 // 2 // 4
    assert second["wrong_vectors"] == 0


def test_a_wrong_orbit_is_found(measure):
    (device,) = list_devices(measure("gpu_compute", env={"FAKE_CUDA_FLIP": "orbit_f64"})["gpu_compute"])
    assert device["orbits"]["f32"]["wrong"] == 0
    assert device["orbits"]["f64"]["wrong"] > 0


def test_a_flipped_bit_in_memory_is_located(measure):
    (device,) = list_devices(measure("gpu_memory", env={"FAKE_CUDA_FLIP": "memory"})["gpu_memory"])
    assert {name: count for name, count in device["wrong_vectors"].items() if count} == {"address": 1}
    assert device["faults"] == [
        {
            "pattern": "address",
            "chunk": 2,
            "vectors": 1,
            "first_vector": (1 << 20) // 16 // 2,
            "bits": "00000008",
        }
    ]


def test_a_flipped_bit_on_the_way_is_found(measure):
    (device,) = list_devices(measure("gpu_copy", env={"FAKE_CUDA_FLIP": "copy"})["gpu_copy"])
    assert device["wrong_vectors"] == 1


@pytest.mark.parametrize("check", CHECKS)
def test_the_drill_flips_a_bit_that_is_found(measure, check):
    (device,) = list_devices(measure(check, gpu_flip_bit=1)[check])
    wrong = device.get("wrong_vectors")
    found = sum(wrong.values()) if isinstance(wrong, dict) else wrong
    if check == "gpu_compute":
        found = device["matmul"][0]["wrong_vectors"]
    assert found == 1


@pytest.mark.parametrize("capability", ["70", "75", "86", "120"])
def test_older_and_newer_parts_run_their_own_kernels(measure, capability):
    (device,) = list_devices(measure("gpu_compute", env={"FAKE_CUDA_CAPABILITY": capability})["gpu_compute"])
    assert device["matmul"]
    assert all(entry["exact"]["wrong_rows"] == 0 for entry in device["matmul"])


def test_a_part_without_a_kernel_says_so(measure):
    (device,) = list_devices(measure("gpu_compute", env={"FAKE_CUDA_CAPABILITY": "61"})["gpu_compute"])
    assert (device["matmul"], device["matmul_missing"]) == ([], "no kernel for compute capability 6.1")
    assert device["orbits"]["f64"]["wrong"] == 0


def test_an_error_of_the_driver_under_load_is_kept_with_its_code(measure):
    record = measure("gpu_compute", env={"FAKE_CUDA_FAIL": "cuCtxSynchronize:214"})["gpu_compute"]
    assert list_devices(record) == [
        {"failed": "cuCtxSynchronize: CUDA_ERROR_FAKE: from the stand-in driver", "code": 214}
    ]


def test_a_driver_that_does_not_start_is_an_error(measure):
    record = measure("gpu_compute", env={"FAKE_CUDA_FAIL": "cuInit:999"})["gpu_compute"]
    assert record["status"] == "error"
    assert "cuInit" in record["reason"]


def test_no_gpu_and_no_driver_are_not_run(measure, tmp_path):
    assert measure("gpu_compute", gpu_library=tmp_path / "nothing.so")["gpu_compute"]["status"] == "not_run"
    record = measure("gpu_copy", gpu_library="")["gpu_copy"]
    assert (record["status"], record["reason"]) == ("not_run", "no NVIDIA GPU")


@pytest.mark.parametrize(
    ("free_gib", "expected"), [(80, (8192, 8)), (2, (8192, 4)), (1, (4096, 6)), (0.51, (512, 8))]
)
def test_matrices_fit_the_free_memory(free_gib, expected):
    bench = SimpleNamespace(device=SimpleNamespace(free_bytes=lambda: int(free_gib * (1 << 30))))
    size, count = choose_size(bench, 8192)
    assert (size, count) == expected
    assert size * size * (8 + 4 * count) <= bench.device.free_bytes() - RESERVED_BYTES


class CountingSensors:
    """Sensors whose clock counts the readings."""

    def __init__(self):
        self.readings = 0

    def read_sample(self):
        self.readings += 1
        sample = dict.fromkeys(COLUMNS)
        sample |= {"sm_mhz": 1000 + self.readings, "event_reasons": 4 if self.readings == 3 else 0}
        return list(sample.values())


def test_a_long_series_stays_short_and_keeps_every_extreme():
    recorder = SensorRecorder(CountingSensors(), 0)
    recorder.started = 0.0
    waits = iter(range(3 * MAX_SAMPLES))
    recorder.stopped.wait = lambda _seconds: next(waits, None) is None
    recorder._record()
    record = recorder.build_record()
    assert record["count"] == 3 * MAX_SAMPLES
    assert MAX_SAMPLES // 2 <= len(record["samples"]) < MAX_SAMPLES
    assert record["extremes"]["sm_mhz"] == [1001, 1000 + 3 * MAX_SAMPLES]
    assert record["event_reasons_seen"] == 4


def test_a_host_without_the_parameter_reads_its_bus(tmp_path):
    assert find_reason_not_to_run(HostAccess(root=str(tmp_path))) == "no NVIDIA GPU"
    assert find_reason_not_to_run(HostAccess(root=str(tmp_path), params={"expect_gpus": "8"})) == ""
