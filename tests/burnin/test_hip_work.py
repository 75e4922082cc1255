"""The check gpu_hip: prototypes as in Debian's headers, kernels compiled for AMD's processors, and the whole path.

No AMD card was available: the stand-in runtime compiles the same kernels for this processor, and runs them.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from c_values import compute_c_values
from gpufleet.burnin.agent import hip_api
from gpufleet.burnin.agent.clibrary import LibraryError
from gpufleet.burnin.agent.kernel_source import CARD_KERNELS, HIP_OPTIONS, build_hip_source
from gpufleet.burnin.agent.workers import run_job_with_deadline
from gpufleet.burnin.thresholds import select_thresholds
from gpufleet.burnin.verdict import judge_check

HEADERS = Path("/usr/include/hip")
needs_headers = pytest.mark.skipif(not HEADERS.exists(), reason="libamdhip64-dev is not installed")
# Processors of Instinct MI210/MI250, MI300 and of Radeon RX 7900.
TARGETS = ("gfx90a", "gfx942", "gfx1100")
COMPILER = shutil.which("clang-19")
# What AMD's compiler defines for HIP before it reads a source.
BUILT_IN = """
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __launch_bounds__(n) __attribute__((amdgpu_flat_work_group_size(1, n)))
struct Index { unsigned x; };
#define threadIdx (Index{__builtin_amdgcn_workitem_id_x()})
#define blockIdx (Index{__builtin_amdgcn_workgroup_id_x()})
#define __syncthreads() (__builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "workgroup"), __builtin_amdgcn_s_barrier())
"""
SMALL = {
    "ignore_busy": 1,
    "card_seconds": 0.01,
    "card_size": 256,
    "card_chunk_mib": 1,
    "card_copy_mib": 1,
}


def read_prototypes(name):
    """Return a header's functions as our tables write them."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", (HEADERS / name).read_text(), flags=re.DOTALL)
    text = re.sub(r"__dparm\(\w*\)|\s=\s*\w+", "", text)
    functions = {}
    for function, body in re.findall(r"\b(?:hipError_t|hiprtcResult)\s+(\w+)\s*\(([^;{)]*)\)\s*;", text):
        types = [re.sub(r"\s*\b\w+$", "", " ".join(word.split())) for word in body.split(",")]
        functions[function] = [re.sub(r"\s*(\*+)", r" \1", kind) for kind in types]
    return functions


@needs_headers
@pytest.mark.parametrize(
    ("header", "table"),
    [("hip_runtime_api.h", hip_api.PROTOTYPES), ("hiprtc.h", hip_api.COMPILER_PROTOTYPES)],
)
def test_every_prototype_equals_debians_header(header, table):
    declared, ours = read_prototypes(header), {}
    for line in filter(None, table.splitlines()):
        name, _, rest = line.rstrip(")").partition("(")
        ours[name] = [word.strip() for word in rest.split(",")]
    assert len(ours) > 5
    # The header says "unsigned" where it means "unsigned int", and nothing where it means "void".
    assert {
        name: [re.sub(r"\bunsigned$", "unsigned int", kind) or "void" for kind in declared[name]]
        for name in ours
    } == ours


@needs_headers
def test_every_number_equals_debians_header(tmp_path):
    header = tmp_path / "hip.h"
    header.write_text(
        "#define __HIP_PLATFORM_AMD__ 1\n#define __HIP_PLATFORM_HCC__ 1\n#include <hip/hip_runtime_api.h>\n"
    )
    numbers = hip_api.CONSTANTS | hip_api.RESULTS
    assert dict(zip(numbers, compute_c_values(header, numbers, tmp_path), strict=True)) == numbers


@pytest.mark.skipif(COMPILER is None, reason="clang-19 is not installed")
@pytest.mark.parametrize("target", TARGETS)
def test_llvm_assembles_every_kernel_for_every_target(target, tmp_path):
    source, assembly = tmp_path / "kernels.hip", tmp_path / "kernels.s"
    source.write_text(BUILT_IN + build_hip_source())
    common = [
        COMPILER,
        "-x",
        "hip",
        "--cuda-device-only",
        f"--offload-arch={target}",
        "-nogpuinc",
        "-nogpulib",
    ]
    subprocess.run([*common, *HIP_OPTIONS, "-Werror", "-S", "-o", assembly, source], check=True)
    assembler = [COMPILER, "-target", "amdgcn-amd-amdhsa", f"-mcpu={target}", "-c"]
    subprocess.run([*assembler, "-o", tmp_path / "kernels.o", assembly], check=True)
    text = assembly.read_text()
    assert set(re.findall(r"\.amdhsa_kernel (\w+)", text)) == set(CARD_KERNELS)
    # A kernel that spills its sums to memory measures memory.
    assert set(re.findall(r"; ScratchSize: (\d+)", text)) == {"0"}
    assert re.search(r"\bv_(pk_)?fmac?_", text) or "v_dual_fmac" in text
    assert "s_barrier" in text


# What Debian 12's ROCm 5.2 knows too; it aborts where it does not know a processor.
@pytest.mark.parametrize("target", ["gfx90a", "gfx1030"])
def test_rocms_own_compiler_takes_the_kernels(target):
    try:
        hip_api.HipCompiler()
    except LibraryError as error:
        pytest.skip(f"libamdhip64-dev is not installed: {error}")

    def compile_kernels():
        code = hip_api.HipCompiler().compile(build_hip_source(), (*HIP_OPTIONS, f"--offload-arch={target}"))
        return [code[:4].hex(), [name for name in CARD_KERNELS if name.encode() in code]]

    assert run_job_with_deadline(compile_kernels, 60) == {"value": [b"\x7fELF".hex(), list(CARD_KERNELS)]}


@pytest.mark.parametrize("library", ["", "absent"])
def test_a_machine_without_a_card_is_not_run(measure, library):
    """Without a parameter the answer is that of ROCm's own runtime, where it is installed."""
    record = measure(hip_library=library and "/nothing/libamdhip64.so")
    assert (record["status"], record["reason"][:5]) == ("not_run", "HIP: ")


@pytest.fixture(scope="module")
def runtime(tmp_path_factory):
    """Compile the stand-in runtime."""
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    library = tmp_path_factory.mktemp("hip") / "libamdhip64.so.6"
    source = Path(__file__).with_name("fake_hip.cpp")
    flags = ["-O1", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run([compiler, *flags, "-o", library, source], check=True)
    return library


@pytest.fixture(scope="module")
def measure(agent, runtime, tmp_path_factory):
    """Give the function that runs the check and returns its record."""
    lock = tmp_path_factory.mktemp("agent-lock") / "lock"

    def run(env=(), **params):
        argv = [sys.executable, str(agent), "run", "--attempt", "a", "--lock", str(lock), "--only", "gpu_hip"]
        for name, value in {"hip_library": runtime, **SMALL, **params}.items():
            argv += ["-p", f"{name}={value}"]
        environment = {**os.environ, **dict(env)}
        done = subprocess.run(argv, capture_output=True, text=True, env=environment, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        records = [json.loads(line) for line in done.stdout.splitlines()]
        return next(record for record in records if record["type"] == "check")

    return run


@pytest.fixture(scope="module")
def healthy(measure):
    """Run the check on two cards."""
    return measure({"FAKE_HIP_DEVICES": "2"})


def test_healthy_cards_compute_everything_right(healthy):
    devices = healthy["raw"]["devices"]
    assert [device["bus_id"] for device in devices] == ["0000:03:00.0", "0000:04:00.0"]
    for device in devices:
        for kind, product in zip(("u32", "f32"), device["matmul"], strict=True):
            assert (product["kind"], product["size"], product["wrong_vectors"]) == (kind, 256, 0)
            assert product["exact"] == {
                "rows": 256, "wrong_rows": 0, "fractions": 0, "samples": 8, "wrong_samples": 0
            }  # fmt: skip
        assert set(device["memory"]["wrong_vectors"]) == {
            "address",
            "inverse",
            "00",
            "ff",
            "55",
            "aa",
            "copy",
        }
        assert not any(device["memory"]["wrong_vectors"].values())
        assert device["copy"]["wrong_vectors"] == 0
    checksums = [[product["checksum"] for product in device["matmul"]] for device in devices]
    assert checksums[0] == checksums[1]


def test_what_a_stand_in_gives_never_passes(healthy):
    assert healthy["raw"]["fake"] is True
    result = judge_check(healthy, select_thresholds("gpu_server"), "", False)
    assert (result.outcome, result.reason) == ("not_run", "answered by a fake tool")
    real = {**healthy, "raw": {**healthy["raw"], "fake": False}}
    assert judge_check(real, select_thresholds("gpu_server"), "", False).outcome == "pass"


def test_bits_that_the_card_flips_are_found(measure):
    """A wrong product, a wrong weighted sum of the second product, and a word of memory that changes."""
    record = measure({"FAKE_HIP_FLIP": "multiply_u32:2:4,weigh_c_f32:1:1,fill_pattern:0:7"})
    (device,) = record["raw"]["devices"]
    assert [product["wrong_vectors"] for product in device["matmul"]] == [1, 0]
    assert [product["exact"]["wrong_rows"] for product in device["matmul"]] == [0, 1]
    assert {name: count for name, count in device["memory"]["wrong_vectors"].items() if count} == {"00": 1}
    (fault,) = device["memory"]["faults"]
    assert (fault["chunk"], fault["first_vector"], fault["bits"]) == (0, 25, "00000080")


def test_a_hardware_error_of_the_runtime_fails(measure):
    record = measure({"FAKE_HIP_RESULT": "214"})
    assert record["raw"]["devices"] == [{"failed": "hipEventQuery: hipErrorECCNotCorrectable", "code": 214}]
    real = {**record, "raw": {**record["raw"], "fake": False}}
    assert judge_check(real, select_thresholds("gpu_server"), "", False).outcome == "fail"


def test_no_card_is_not_run(measure):
    record = measure({"FAKE_HIP_DEVICES": "0"})
    assert (record["status"], record["reason"]) == ("not_run", "no GPU for HIP")


def test_a_source_that_does_not_compile_names_the_error(runtime):
    compiler = hip_api.HipCompiler((str(runtime),))
    with pytest.raises(
        LibraryError, match=r"hiprtcCompileProgram: hiprtcResult 6 .*error: .*nonsense"
    ) as caught:
        compiler.compile("nonsense", HIP_OPTIONS)
    assert caught.value.code == 6
