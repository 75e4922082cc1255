"""The agent's PTX kernels: NVIDIA's assembler takes them, and our interpreter gets the right numbers from them."""

import importlib.util
import os
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

from gpufleet.burnin.agent import ptx_basic as basic
from gpufleet.burnin.agent.ptx_catalog import ALL, list_matmul_kernels
from ptx_interpreter import BASE, DeviceMemory, PtxError, launch
from ptx_tensor import MatrixMap

TARGETS = ("70", "75", "80", "86", "87", "89", "90", "90a", "100", "103", "120", "121")
KERNELS, _ = list_matmul_kernels((9, 0), ALL)
MODULE = basic.build_basic_module()
NO_ERRORS = struct.pack("<3Q", 0, (1 << 64) - 1, 0)
SEED_A, SEED_B = 0x10000000, 0x50000000


def find_ptxas():
    """Return the assembler of the package nvidia-cuda-nvcc-cu12."""
    spec = importlib.util.find_spec("nvidia.cuda_nvcc")
    paths = [Path(folder) / "bin" / "ptxas" for folder in (spec.submodule_search_locations if spec else ())]
    return next((path for path in paths if os.access(path, os.X_OK)), None)


PTXAS = find_ptxas()
needs_ptxas = pytest.mark.skipif(PTXAS is None, reason="nvidia-cuda-nvcc-cu12 is not installed")


def runs_on(kernel, target):
    """Return whether a kernel is for a target: a suffix binds it to exactly that one."""
    oldest = kernel.name.rpartition("sm_")[2]
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
    kernels = [kernel for kernel in KERNELS if runs_on(kernel, target)]
    assert kernels, "a target without a matrix kernel"
    reports = [assemble(kernel.name, kernel.ptx, target, tmp_path) for kernel in kernels]
    reports.append(assemble("basic", MODULE, target, tmp_path))
    # A kernel that spills its sums to memory measures memory.
    assert all("0 bytes spill stores, 0 bytes spill loads" in report for report in reports)
    assert "bytes stack frame, 4 bytes spill" not in "".join(reports)


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


def operand(seed, rows, depth):
    """Return a matrix of small integers as the kernels make it."""
    values = [(basic.mix(place + seed) >> 28) - 8 for place in range(rows * depth)]
    return np.array(values, np.float64).reshape(rows, depth)


def multiply(kernel, rows, columns, depth):
    """Fill operands and multiply them in the interpreter; return its memory, the result's place and numpy's result."""
    memory = DeviceMemory()
    a, b, c = (
        memory.allocate(bytes(size)) for size in (rows * depth * 2, columns * depth * 2, rows * columns * 4)
    )
    for address, seed, lines in ((a, SEED_A, rows), (b, SEED_B, columns)):
        blocks = lines * depth // 512
        launch(MODULE, f"fill_operands_{kernel.kind}", memory, blocks, 256, data=address, seed=seed, random=0)
    inputs = {"a": a, "b": b}
    if kernel.uses_maps:
        inputs["a"] = MatrixMap(a, rows, depth, (kernel.depth, kernel.rows))
        inputs["b"] = MatrixMap(b, columns, depth, (kernel.depth, kernel.columns))
    grid = (rows // kernel.rows, columns // kernel.columns)
    launch(
        kernel.ptx, kernel.name, memory, grid[0] * grid[1], kernel.threads,
        **inputs, c=c, rowtiles=grid[0], tiles=grid[1], depth=depth,
    )  # fmt: skip
    return memory, c, operand(SEED_A, rows, depth) @ operand(SEED_B, columns, depth).T


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_matrix_kernels_compute_the_same_as_numpy_in_our_interpreter(kernel):
    # Two tiles each way, and more slices than stages, so that stages are used again.
    depth = 6 * kernel.depth
    rows, columns = (
        (2 * kernel.rows, kernel.columns) if kernel.kind == "f16" else (kernel.rows, 2 * kernel.columns)
    )
    memory, place, expected = multiply(kernel, rows, columns, depth)
    result = np.frombuffer(memory.read(place, rows * columns * 4), np.float32).reshape(rows, columns)
    assert np.array_equal(result, expected)


def test_weighed_sums_find_one_wrong_element_and_one_fraction():
    kernel = next(kernel for kernel in KERNELS if kernel.name == "matmul_f16_sm_75")
    size = depth = 128
    memory, result, _ = multiply(kernel, size, size, depth)
    weights, expected = memory.allocate(bytes(4 * depth)), memory.allocate(bytes(4 * size))
    launch(MODULE, "weigh_b", memory, 1, 256, out=weights, rows=size, depth=depth, seed=SEED_B)
    launch(
        MODULE, "weigh_a", memory, 1, 256, out=expected, weights=weights, rows=size, depth=depth, seed=SEED_A
    )

    def find_wrong_rows():
        sums, counts = memory.allocate(bytes(4 * size)), memory.allocate(NO_ERRORS)
        launch(MODULE, "weigh_c", memory, size, 256, matrix=result, sums=sums, result=counts, columns=size)
        left, right = (struct.unpack(f"<{size}I", memory.read(place, 4 * size)) for place in (expected, sums))
        fractions = struct.unpack("<3Q", memory.read(counts, 24))[0]
        return [row for row in range(size) if left[row] != right[row]], fractions

    assert find_wrong_rows() == ([], 0)
    cells = memory.data[result - BASE : result - BASE + 4 * size * size].view(np.float32)
    cells[5 * size + 7] += 1
    assert find_wrong_rows() == ([5], 0)
    cells[5 * size + 7] -= 1
    cells[9 * size] += np.float32(0.25)
    assert find_wrong_rows()[1] == 1


@pytest.mark.parametrize(("keep", "flip"), [(0xFFFFFFFF, 0), (0xFFFFFFFF, 0xFFFFFFFF), (0, 0x55555555)])
def test_patterns_are_written_copied_and_one_wrong_bit_is_found(keep, flip):
    size, seed = 2 * basic.BLOCK_BYTES, 0x9E3779B1
    memory = DeviceMemory()
    source, target = memory.allocate(bytes(size)), memory.allocate(bytes(size))
    grid = (size // basic.BLOCK_BYTES, basic.THREADS)
    launch(MODULE, "fill_pattern", memory, *grid, data=source, seed=seed, keep=keep, flip=flip)
    words = [
        (basic.mix(vector + seed) * factor & keep & basic.MASK) ^ flip
        for vector in range(size // 16)
        for factor in basic.WORD_FACTORS
    ]
    assert memory.read(source, size) == struct.pack(f"<{len(words)}I", *words)
    launch(MODULE, "copy_vectors", memory, *grid, source=source, target=target)
    assert memory.read(target, size) == memory.read(source, size)
    memory.data[target - BASE + 20_000] ^= 8

    def count(kernel, **places):
        counts = memory.allocate(NO_ERRORS)
        launch(MODULE, kernel, memory, *grid, **places, result=counts)
        return struct.unpack("<3Q", memory.read(counts, 24))

    pattern = {"seed": seed, "keep": keep, "flip": flip}
    assert count("verify_pattern", data=source, **pattern) == (0, (1 << 64) - 1, 0)
    assert count("verify_pattern", data=target, **pattern) == (1, 20_000 // 16, 8)
    assert count("compare_words", left=source, right=target) == (1, 20_000 // 16, 8)
    assert count("sum_words", data=source) != count("sum_words", data=target)


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_orbits_end_where_exact_arithmetic_says(kind):
    starts, ends = basic.compute_orbits(kind, 40)
    memory = DeviceMemory()
    places = {
        "starts": memory.allocate(starts),
        "expected": memory.allocate(ends),
        "result": memory.allocate(bytes(8)),
    }
    launch(MODULE, f"orbit_{kind}", memory, 1, 256, **places, steps=40)
    assert memory.read(places["result"], 8) == bytes(8)
    launch(MODULE, f"orbit_{kind}", memory, 1, 256, **places, steps=41)
    assert struct.unpack("<Q", memory.read(places["result"], 8))[0] == 256 * basic.CHAINS


def test_single_precision_rounds_once_as_numpy_does():
    values = np.random.default_rng(1).normal(size=(3, 300)).astype(np.float32)
    for x, y, z in values.T:
        exact = basic.Fraction(float(x)) * basic.Fraction(float(y)) + basic.Fraction(float(z))
        # Extended precision is rounded twice too rarely to matter in 300 cases; a tie is built below.
        assert float(basic.round_to_f32(exact)) == float(np.float32(np.longdouble(x) * np.longdouble(y) + z))
    tie = basic.Fraction(1) + basic.Fraction(1, 1 << 24)
    assert basic.round_to_f32(tie) == 1
    assert basic.round_to_f32(tie + basic.Fraction(1, 1 << 70)) == 1 + basic.Fraction(1, 1 << 23)


def test_the_interpreter_refuses_what_hardware_would():
    memory = DeviceMemory()
    with pytest.raises(PtxError, match="out of bounds"):
        launch(MODULE, "fill_pattern", memory, 1, 256, data=BASE + memory.size - 16, seed=0, keep=0, flip=0)
    with pytest.raises(PtxError, match="misaligned"):
        launch(MODULE, "fill_pattern", memory, 1, 256, data=BASE + 4, seed=0, keep=0, flip=0)
    with pytest.raises(PtxError, match="takes"):
        launch(MODULE, "fill_pattern", memory, 1, 256, data=BASE)
