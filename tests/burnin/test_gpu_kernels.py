"""The agent's CUDA kernels: NVIDIA's assembler takes them, and their source gets the right numbers on this processor.

Nothing computes a matrix kernel without a GPU, so its text is the one that was computed on GPUs, and must not change.
"""

import ctypes
import hashlib
import importlib.util
import os
import re
import subprocess
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from cuda_software import KERNELS, build_fake_cuda
from gpufleet.burnin.agent import kernel_values as values
from gpufleet.burnin.agent.cuda_kernels import ALL, list_matmul_kernels

TARGETS = ("70", "75", "80", "86", "87", "89", "90", "90a", "100", "103", "120", "121")
MATMUL, _ = list_matmul_kernels((9, 0), ALL)
BASIC = (KERNELS / "basic.ptx").read_text()
SEED_A, SEED_B = 0x10000000, 0x50000000
# What the H100 and H200 of docs/burn-in.md computed without a wrong bit: each kernel's rows, columns, threads, shared
# memory, depth and use of tensor maps, and the digest of its instructions. docs/decisions/0016: what a change needs.
PROVEN = {
    "matmul_bf16_sm_90a": (128, 256, 384, 197_696, 64, True, "86ab7888b03426cb"),
    "matmul_f16_sm_90a": (128, 256, 384, 197_696, 64, True, "a7b9a145a97d94f3"),
    "matmul_bf16_sm_80": (128, 256, 256, 98_304, 32, False, "19f66cc360a0fe79"),
    "matmul_f16_sm_80": (128, 256, 256, 98_304, 32, False, "a5fc67183c6455d3"),
    "matmul_f16_sm_75": (128, 128, 256, 32_768, 32, False, "d860f13bf44d7b45"),
    "matmul_f16_sm_70": (128, 128, 256, 40_960, 32, False, "7bda8bbd6dd3434a"),
}


def find_ptxas():
    """Return the assembler of the package nvidia-cuda-nvcc-cu12."""
    spec = importlib.util.find_spec("nvidia.cuda_nvcc")
    paths = [Path(folder) / "bin" / "ptxas" for folder in (spec.submodule_search_locations if spec else ())]
    return next((path for path in paths if os.access(path, os.X_OK)), None)


PTXAS = find_ptxas()
needs_ptxas = pytest.mark.skipif(PTXAS is None, reason="nvidia-cuda-nvcc-cu12 is not installed")


def runs_on(kernel, target):
    """Return whether a kernel is for a target: a suffix binds it to exactly that one."""
    oldest = kernel.target.removeprefix("sm_")
    return target == oldest if oldest.endswith("a") else int(target.rstrip("a")) >= int(oldest)


def assemble(name, ptx, target, folder):
    """Assemble a module; return the assembler's report."""
    source = folder / f"{name}.ptx"
    source.write_text(ptx)
    argv = [PTXAS, "-v", "-arch", f"sm_{target}", source, "-o", folder / "out.cubin"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{name} for sm_{target}: {done.stderr[:500]}"
    return done.stderr


@needs_ptxas
@pytest.mark.parametrize("target", TARGETS)
def test_nvidias_assembler_takes_every_kernel_for_every_target(target, tmp_path):
    kernels = [kernel for kernel in MATMUL if runs_on(kernel, target)]
    assert kernels, "a target without a matrix kernel"
    reports = [assemble(kernel.name, kernel.ptx, target, tmp_path) for kernel in kernels]
    reports.append(assemble("basic", BASIC, target, tmp_path))
    # A kernel that spills its sums to memory measures memory.
    spills = [spill for report in reports for spill in re.findall(r"(\d+) bytes spill", report)]
    assert len(spills) >= 2 * len(reports)
    assert set(spills) == {"0"}


def test_each_generation_has_its_kernels():
    names = {
        capability: [kernel.name for kernel in list_matmul_kernels(capability)[0]]
        for capability in ((7, 0), (7, 5), (8, 6), (9, 0), (12, 1))
    }
    assert names == {
        (7, 0): ["matmul_f16_sm_70"],
        (7, 5): ["matmul_f16_sm_75"],
        (8, 6): ["matmul_bf16_sm_80", "matmul_f16_sm_80"],
        (9, 0): ["matmul_bf16_sm_90a", "matmul_f16_sm_90a"],
        (12, 1): ["matmul_bf16_sm_80", "matmul_f16_sm_80"],
    }
    assert list_matmul_kernels((6, 1)) == ([], "no kernel for compute capability 6.1")


def describe(kernel):
    """Return what a kernel needs and the digest of its instructions, without comments and spacing."""
    words = re.sub(r"//.*", "", kernel.ptx).split()
    digest = hashlib.sha256(" ".join(words).encode()).hexdigest()[:16]
    shape = (kernel.rows, kernel.columns, kernel.threads, kernel.shared_bytes, kernel.depth, kernel.uses_maps)
    return (*shape, digest)


@pytest.mark.parametrize("kernel", MATMUL, ids=lambda kernel: kernel.name)
def test_matrix_kernels_are_those_that_gpus_have_computed(kernel):
    assert describe(kernel) == PROVEN[kernel.name]


def test_results_of_many_threads_are_changed_by_atomic_instructions_alone():
    """On this processor one thread runs after the other, so that a lost update would not show."""
    kernels = dict(re.findall(r"\.entry (\w+)\((.*?)\n\}", BASIC, re.DOTALL))
    shared = {"verify_pattern", "compare_words", "sum_words", "weigh_c", "orbit_f32", "orbit_f64"}
    assert {name for name, text in kernels.items() if "st.global" not in text} == shared
    assert {name for name, text in kernels.items() if re.search(r"\b(atom|red)\.global", text)} == shared
    assert ".shared" not in BASIC


@pytest.fixture(scope="module")
def launch(tmp_path_factory):
    """Give the function that runs a basic kernel's blocks on arrays and numbers."""
    library = ctypes.CDLL(str(build_fake_cuda(tmp_path_factory.mktemp("cuda") / "libcuda.so.1")))

    def run(name, blocks, *arguments):
        boxes = [
            argument.ctypes.data_as(ctypes.c_void_p) if isinstance(argument, np.ndarray) else ctypes.c_uint32(argument)
            for argument in arguments
        ]  # fmt: skip
        places = (ctypes.c_void_p * len(boxes))(*map(ctypes.addressof, boxes))
        assert library.run_basic_kernel(name.encode(), blocks, places) == 0

    return run


def no_errors():
    """Return counts before a comparison: how many, the first place, which bits."""
    return np.array([0, (1 << 64) - 1, 0], np.uint64)


def allocate(count, kind=np.uint32):
    """Return an array between two areas, which ``check_borders`` looks at."""
    return np.full(count + 2048, 0x5A, kind)[1024:-1024]


def check_borders(*arrays):
    for array in arrays:
        assert (array.base[:1024] == 0x5A).all()
        assert (array.base[-1024:] == 0x5A).all()


def hash_places(count, seed):
    return np.array([values.mix(place + seed) for place in range(count)], np.uint32)


def small_integers(seed, rows, depth):
    """Return a matrix of small integers as the kernels make it."""
    return ((hash_places(rows * depth, seed) >> 28).astype(np.float64) - 8).reshape(rows, depth)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("is_random", [0, 1])
def test_operands_are_exact_in_16_bits(launch, kind, is_random):
    data, seed = allocate(1024), 7
    launch(f"fill_operands_{kind}", 4, data, seed, is_random)
    hashes = hash_places(2048, seed)
    expected = ((hashes & 0x80FFE000) | 0x3F000000).view(np.float32)
    if not is_random:
        expected = small_integers(seed, 1, 2048)[0].astype(np.float32)
    halves = data.view(np.uint16)
    found = halves.view(np.float16) if kind == "f16" else (halves.astype(np.uint32) << 16).view(np.float32)
    if kind == "bf16" and is_random:
        expected = (expected.view(np.uint32) & 0xFFFF0000).view(np.float32)
    assert np.array_equal(found.astype(np.float32), expected)
    check_borders(data)


def test_weighed_sums_find_one_wrong_element_and_one_fraction(launch):
    rows, columns, depth = 100, 300, 270  # none is a multiple of a block's threads
    product = small_integers(SEED_A, rows, depth) @ small_integers(SEED_B, columns, depth).T
    result = allocate(rows * columns, np.float32)
    result[:] = product.ravel()
    weights, expected = allocate(depth), allocate(rows)
    launch("weigh_b", 2, weights, columns, depth, SEED_B)
    launch("weigh_a", 1, expected, weights, rows, depth, SEED_A)
    factors = np.array([values.mix(column + values.WEIGHT_SEED) | 1 for column in range(columns)], object)
    wanted = (product.astype(int).astype(object) @ factors) & values.MASK
    assert expected.tolist() == wanted.tolist()

    def find_wrong_rows():
        sums, counts = np.zeros(rows, np.uint32), no_errors()
        launch("weigh_c", rows, result, sums, counts, columns)
        return np.flatnonzero(sums != expected).tolist(), int(counts[0])

    assert find_wrong_rows() == ([], 0)
    result[5 * columns + 7] += 1
    assert find_wrong_rows() == ([5], 0)
    result[5 * columns + 7] -= 1
    result[9 * columns] += np.float32(0.25)
    assert find_wrong_rows()[1] == 1
    check_borders(weights, expected, result)


@pytest.mark.parametrize(("keep", "flip"), [(0xFFFFFFFF, 0), (0xFFFFFFFF, 0xFFFFFFFF), (0, 0x55555555)])
def test_patterns_are_written_copied_and_wrong_bits_are_found(launch, keep, flip):
    blocks, seed = 2, 0x9E3779B1
    count = blocks * values.BLOCK_BYTES // 16
    source, target = allocate(4 * count), allocate(4 * count)
    launch("fill_pattern", blocks, source, seed, keep, flip)
    factors = np.array(values.WORD_FACTORS, np.uint32)
    expected = hash_places(count, seed)[:, None] * factors & np.uint32(keep) ^ np.uint32(flip)
    assert np.array_equal(source, expected.ravel())
    launch("copy_vectors", blocks, source, target)
    assert np.array_equal(target, source)
    # One bit in each of a vector's four words, of four vectors.
    for word in range(4):
        target[5000 + 5 * word] ^= 1 << word

    def compare(kernel, *arguments):
        counts = no_errors()
        launch(kernel, blocks, *arguments[:-1], counts, *arguments[-1])
        return counts.tolist()

    pattern = (seed, keep, flip)
    assert compare("verify_pattern", source, pattern) == [0, (1 << 64) - 1, 0]
    assert compare("verify_pattern", target, pattern) == [4, 5000 // 4, 0b1111]
    assert compare("compare_words", source, target, ()) == [4, 5000 // 4, 0b1111]
    for array in (source, target):
        weights = (hash_places(count, 0) | 1)[:, None] * factors
        (total, *_) = compare("sum_words", array, ())
        assert total == int((weights.ravel().astype(object) * array.astype(object)).sum()) % (1 << 64)
    check_borders(source, target)


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_orbits_end_where_exact_arithmetic_says(launch, kind):
    starts, ends = (np.frombuffer(data, np.uint8) for data in values.compute_orbits(kind, 40))
    counts = no_errors()
    launch(f"orbit_{kind}", 1, starts, ends, counts, 40)
    assert counts[0] == 0
    launch(f"orbit_{kind}", 1, starts, ends, counts, 41)
    assert counts[0] == 256 * values.CHAINS


def test_single_precision_rounds_once_as_numpy_does():
    rows = np.random.default_rng(1).normal(size=(3, 300)).astype(np.float32)
    for x, y, z in rows.T:
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        # Extended precision is rounded twice too rarely to matter in 300 cases; a tie is built below.
        assert float(values.round_to_f32(exact)) == float(np.float32(np.longdouble(x) * np.longdouble(y) + z))
    tie = Fraction(1) + Fraction(1, 1 << 24)
    assert values.round_to_f32(tie) == 1
    assert values.round_to_f32(tie + Fraction(1, 1 << 70)) == 1 + Fraction(1, 1 << 23)
