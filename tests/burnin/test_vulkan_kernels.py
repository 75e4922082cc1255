"""The agent's Vulkan kernels: Khronos' validator takes them, and lavapipe gets the right numbers from them."""

import base64
import os
import shutil
import struct
import subprocess

import numpy as np
import pytest

from gpufleet.burnin.agent.card_bench import NO_ERRORS, SEED_A, SEED_B, CardBench, compute_element
from gpufleet.burnin.agent.card_device import (
    ANY_WORDS,
    GROUP_VECTORS,
    RANDOM_FLOATS,
    SMALL_INTEGERS,
    TILE,
    read_bytes,
    write_bytes,
)
from gpufleet.burnin.agent.kernel_source import CARD_KERNELS, read_kernel_file
from gpufleet.burnin.agent.kernel_values import WEIGHT_SEED, WORD_FACTORS, mix
from gpufleet.burnin.agent.vulkan_device import VulkanDevice, list_physical_devices, open_instance
from gpufleet.burnin.agent.workers import run_job_with_deadline
from vulkan_software import build_environment, needs_lavapipe

SIZE = 128
MASK = 0xFFFFFFFF
VECTORS = 2 * GROUP_VECTORS


@pytest.mark.parametrize("name", CARD_KERNELS)
def test_khronos_validator_takes_every_kernel(name, tmp_path):
    validator = shutil.which("spirv-val")
    if validator is None:
        pytest.skip("spirv-tools is not installed")
    (tmp_path / "kernel.spv").write_bytes(read_kernel_file(f"{name}.spv"))
    argv = [validator, "--target-env", "vulkan1.1", tmp_path / "kernel.spv"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def run_kernels():
    """Run every kernel once; return the buffers' contents by name."""
    vulkan, instance = open_instance()
    bench = CardBench(VulkanDevice(vulkan, list_physical_devices(vulkan, instance)[0]))
    device, contents = bench.device, {}

    def run(name, groups, buffers, *numbers):
        with device.record() as recording:
            recording.dispatch(bench.kernel(name), groups, buffers, *numbers)

    def keep(name, buffer):
        contents[name] = base64.b64encode(read_bytes(device, buffer, 0, buffer.size)).decode()

    data, copy = (device.create_buffer(VECTORS * 16) for _ in range(2))
    run("fill_pattern", 2, [data], 7, 0x00FFFFFF, 0x0F000001)
    keep("pattern", data)
    run("copy_vectors", 2, [data, copy])
    keep("copy", copy)
    for name, numbers in (("verify_pattern", (7, 0x00FFFFFF, 0x0F000001)), ("compare_vectors", ())):
        wrong = make_pattern(7, 0x00FFFFFF, 0x0F000001)[313] ^ np.array([1, 2, 4, 8], np.uint32)
        write_bytes(device, copy, 313 * 16, wrong.tobytes())
        bench.clear_counts()
        run(name, 2, [copy, bench.counts] if numbers else [data, copy, bench.counts], *numbers)
        keep(name, bench.counts)
    contents["checksums"] = [bench.sum_buffer(data), bench.sum_buffer(copy)]
    a, b, c = (device.create_buffer(SIZE * SIZE * 4) for _ in range(3))
    sums = [device.create_buffer(SIZE * 4) for _ in range(3)]
    for kind, mode in (("u32", ANY_WORDS), ("f32", SMALL_INTEGERS)):
        run("fill_operands", SIZE * SIZE // GROUP_VECTORS, [a], SEED_A, mode)
        run("fill_operands", SIZE * SIZE // GROUP_VECTORS, [b], SEED_B, mode)
        run(f"multiply_{kind}", (SIZE // TILE) ** 2, [a, b, c], SIZE, SIZE // TILE)
        run(f"weigh_b_{kind}", 1, [sums[0]], SIZE, SEED_B)
        run(f"weigh_a_{kind}", 1, [sums[0], sums[1]], SIZE, SEED_A)
        for name, buffer in (("a", a), ("b", b), ("c", c), ("expected", sums[1])):
            keep(f"{name}_{kind}", buffer)
        for name, value in (("right", None), ("wrong", 0x3F000000)):
            if value is not None:
                write_bytes(device, c, 4 * (3 * SIZE + 5), struct.pack("<I", value))
            bench.clear_counts()
            run(f"weigh_c_{kind}", 1, [c, sums[2], bench.counts], SIZE)
            keep(f"{name}_{kind}", sums[2])
            keep(f"{name}_counts_{kind}", bench.counts)
    run("fill_operands", SIZE * SIZE // GROUP_VECTORS, [a], SEED_A, RANDOM_FLOATS)
    keep("random", a)
    return contents


@pytest.fixture(scope="module")
def contents():
    """Run the kernels in a process of their own, as the agent does."""
    kept = dict(os.environ)
    os.environ.update(build_environment())
    try:
        answer = run_job_with_deadline(run_kernels, 120)
    finally:
        os.environ.clear()
        os.environ.update(kept)
    assert "value" in answer, answer
    return answer["value"]


@pytest.fixture(scope="module")
def words(contents):
    """Give the function that returns a buffer's content as an array."""
    return lambda name, kind=np.uint32: np.frombuffer(base64.b64decode(contents[name]), kind)


def make_pattern(seed, keep, flip):
    """Return a pattern as the kernels make it."""
    hashes = [mix(place + seed) for place in range(VECTORS)]
    rows = [[((value * factor & MASK) & keep) ^ flip for factor in WORD_FACTORS] for value in hashes]
    return np.array(rows, np.uint32)


@needs_lavapipe
def test_patterns_and_copies_are_those_of_the_model(words):
    expected = make_pattern(7, 0x00FFFFFF, 0x0F000001)
    assert np.array_equal(words("pattern"), expected.ravel())
    assert np.array_equal(words("copy"), expected.ravel())


@needs_lavapipe
@pytest.mark.parametrize("name", ["verify_pattern", "compare_vectors"])
def test_a_vector_with_wrong_words_is_counted_and_located(words, name):
    assert words(name).tolist() == [1, 313, 0b1111, 0]


@needs_lavapipe
def test_a_checksum_changes_with_one_word(contents):
    first, second = contents["checksums"]
    assert first != second


def make_operands(seed, kind):
    """Return a matrix of integers as the kernels make it."""
    hashes = np.array([mix(place + seed) for place in range(SIZE * SIZE)], np.uint64).reshape(SIZE, SIZE)
    return hashes if kind == "u32" else (hashes >> np.uint64(28)).astype(np.int64) - 8


@needs_lavapipe
@pytest.mark.parametrize("kind", ["u32", "f32"])
def test_products_are_those_of_numpy(words, kind):
    element = np.uint32 if kind == "u32" else np.float32
    a, b = make_operands(SEED_A, kind), make_operands(SEED_B, kind)
    assert np.array_equal(words(f"a_{kind}", element).reshape(SIZE, SIZE), a.astype(element))
    assert np.array_equal(words(f"b_{kind}", element).reshape(SIZE, SIZE), b.astype(element))
    product = a @ b.T  # modulo 2^64 or exact, and so modulo 2^32
    expected = (product & np.uint64(MASK)).astype(np.uint32) if kind == "u32" else product.astype(np.float32)
    assert np.array_equal(words(f"c_{kind}", element).reshape(SIZE, SIZE), expected)
    assert compute_element(kind, SIZE, 3, 5) == int(words(f"c_{kind}")[3 * SIZE + 5])


@needs_lavapipe
@pytest.mark.parametrize("kind", ["u32", "f32"])
def test_weighed_sums_find_the_row_of_one_wrong_element(words, kind):
    a, b = (make_operands(seed, kind).astype(object) for seed in (SEED_A, SEED_B))
    weights = [mix(row + WEIGHT_SEED) | 1 for row in range(SIZE)]
    assert words(f"expected_{kind}").tolist() == [int(value) & MASK for value in a @ (b.T @ weights)]
    assert np.array_equal(words(f"right_{kind}"), words(f"expected_{kind}"))
    assert np.flatnonzero(words(f"wrong_{kind}") != words(f"expected_{kind}")).tolist() == [3]
    assert words(f"right_counts_{kind}")[0] == 0
    # The wrong element is the bits of 0.5: as a float a fraction.
    assert words(f"wrong_counts_{kind}")[0] == int(kind == "f32")


@needs_lavapipe
def test_random_operands_have_random_mantissas_between_a_half_and_two(words):
    values = np.abs(words("random", np.float32))
    assert values.min() >= 0.5
    assert values.max() < 2
    assert len(np.unique(values)) > 0.99 * len(values)


def test_counts_start_without_an_error():
    assert struct.unpack("<4I", NO_ERRORS) == (0, MASK, 0, 0)
