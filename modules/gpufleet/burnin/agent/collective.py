"""An all-reduce over the GPUs of two nodes through NCCL or RCCL, where one of them is installed.

The nodes' session carries the library's unique id: neither MPI nor logins between nodes are needed. The library makes
its own connections, over the fabric where it finds one.
"""

from __future__ import annotations

import ctypes
import struct
import time
from array import array
from operator import ne
from typing import Any, Callable  # noqa: UP035 - Python 3.9 runs this

from .clibrary import FOLDERS, Library, LibraryError, find_library, parse_prototypes
from .collective_device import CudaGpus, Gpus, HipGpus
from .gpu import AMD, NVIDIA, list_gpu_pci_addresses
from .gpu_device import FAKE_MARK, BusyGpuError, show_all_gpus
from .hip_api import ROCM_FOLDERS
from .host import HostAccess

ID_BYTES = 128
FLOAT32, SUM = 7, 0
WARM_UP_ROUNDS, ROUNDS = 2, 10
MAX_RANKS, MAX_MIB = 4096, 4096
# The operand at index i of rank r is (r + 1) * (1 + i % PERIOD): sums are exact in float32, and a shifted block shows.
PERIOD = 7


class UniqueId(ctypes.Structure):
    """What all ranks of a communicator share; passed by value."""

    _fields_ = (("internal", ctypes.c_ubyte * ID_BYTES),)


# As in nccl.h, and the same in RCCL's, without the parameters' names; compared by tests/burnin/test_collective.py.
PROTOTYPES = """
ncclGetVersion(int *)
ncclGetUniqueId(ncclUniqueId *)
ncclCommInitRank(ncclComm_t *, int, ncclUniqueId, int)
ncclGroupStart(void)
ncclGroupEnd(void)
ncclAllReduce(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t)
"""
TYPES: dict[str, Any] = {
    "ncclUniqueId": UniqueId,
    "ncclDataType_t": ctypes.c_int,
    "ncclRedOp_t": ctypes.c_int,
    "ncclComm_t": ctypes.c_void_p,
    "cudaStream_t": ctypes.c_void_p,
}
RESULTS = {
    1: "ncclUnhandledCudaError",
    2: "ncclSystemError",
    3: "ncclInternalError",
    4: "ncclInvalidArgument",
    5: "ncclInvalidUsage",
    6: "ncclRemoteError",
    7: "ncclInProgress",
}
NAMES = {"nvidia": ("libnccl.so.2", "libnccl.so"), "amd": ("librccl.so.1", "librccl.so")}


class Nccl(Library):
    """The loaded library."""

    def __init__(self, vendor: str) -> None:
        folders = ROCM_FOLDERS if vendor == "amd" else FOLDERS
        super().__init__(find_library(NAMES[vendor], folders), parse_prototypes(PROTOTYPES, TYPES))

    def describe_error(self, code: int) -> str:
        """Return the library's name of a result."""
        return RESULTS.get(code, f"ncclResult {code}")

    def create_unique_id(self) -> bytes:
        """Return a new id. The process that makes it must stay, because all ranks connect to it."""
        unique_id = UniqueId()
        self.call("ncclGetUniqueId", ctypes.addressof(unique_id))
        return bytes(unique_id.internal)


def open_gpus() -> Gpus:
    """Return the node's GPUs of the first vendor whose driver shows any; raise LibraryError without one."""
    show_all_gpus()
    reasons = []
    for kind in (CudaGpus, HipGpus):
        try:
            gpus = kind()
        except LibraryError as error:
            reasons.append(str(error))
            continue
        if gpus.count:
            return gpus
    raise LibraryError(f"no GPU: {'; '.join(reasons)}")


def inspect_gpus() -> dict[str, Any]:
    """Return vendor and number of the node's GPUs, or why they cannot take part and whether there are any."""
    try:
        gpus = open_gpus()
        gpus.refuse_busy()
        version = Nccl(gpus.vendor).read_number("ncclGetVersion", ctypes.c_int)
    except (LibraryError, BusyGpuError) as error:
        host = HostAccess()
        on_bus = sum(len(list_gpu_pci_addresses(host, vendor)) for vendor in (NVIDIA, AMD))
        return {"missing": str(error), "on_bus": on_bus}
    facts = {"vendor": gpus.vendor, "gpus": gpus.count, "version": version}
    return {**facts, "fake": True} if hasattr(gpus.library, FAKE_MARK) else facts


def drive_all_reduce(ranks: int, mib: int, announce: Callable[[bytes], None]) -> dict[str, Any]:
    """Make the id, announce it to the partner, and measure as the first ranks."""
    gpus = open_gpus()
    nccl = Nccl(gpus.vendor)
    unique_id = nccl.create_unique_id()
    announce(unique_id)
    return measure_all_reduce(gpus, nccl, unique_id, (ranks, 0), mib)


def join_all_reduce(request: dict[str, Any]) -> dict[str, Any]:
    """Measure as the partner that got the id; raise ValueError for a request that cannot be."""
    unique_id = bytes.fromhex(str(request["id"]))
    ranks, first_rank, mib = (int(request[name]) for name in ("ranks", "first_rank", "mib"))
    if len(unique_id) != ID_BYTES or not (0 < first_rank < ranks <= MAX_RANKS and 0 < mib <= MAX_MIB):
        raise ValueError("not a collective's request")
    gpus = open_gpus()
    return measure_all_reduce(gpus, Nccl(gpus.vendor), unique_id, (ranks, first_rank), mib)


def measure_all_reduce(
    gpus: Gpus, nccl: Nccl, unique_id: bytes, place: tuple[int, int], mib: int
) -> dict[str, Any]:
    """Return bus bandwidth in GB/s and wrong values of this node's GPUs; ``place`` is all ranks and the first of ours.

    Bus bandwidth is size / time * 2 * (ranks - 1) / ranks (nccl-tests, doc/PERFORMANCE.md).
    """
    ranks, first_rank = place
    count = (mib << 20) // 4
    communicators = create_communicators(gpus, nccl, unique_id, place)
    buffers = []
    for index in range(gpus.count):
        gpus.select(index)
        source, target = gpus.allocate(count * 4), gpus.allocate(count * 4)
        gpus.write(source, build_operand(count, first_rank + index + 1))
        buffers.append((source, target))

    def reduce_once() -> None:
        nccl.call("ncclGroupStart")
        for index, (source, target) in enumerate(buffers):
            gpus.select(index)
            nccl.call("ncclAllReduce", source, target, count, FLOAT32, SUM, communicators[index], None)
        nccl.call("ncclGroupEnd")

    run_rounds(gpus, reduce_once, WARM_UP_ROUNDS)
    seconds = run_rounds(gpus, reduce_once, ROUNDS)
    expected = build_operand(count, ranks * (ranks + 1) // 2)
    wrong = 0
    for index, (_, target) in enumerate(buffers):
        gpus.select(index)
        wrong += count_differences(gpus.read(target, count * 4), expected)
    bus_share = 2 * (ranks - 1) / ranks
    return {"gb_per_s": round(count * 4 * ROUNDS / seconds * bus_share / 1e9, 3), "wrong_values": wrong}


def create_communicators(
    gpus: Gpus, nccl: Nccl, unique_id: bytes, place: tuple[int, int]
) -> list[ctypes.c_void_p]:
    """Return one communicator for each of this node's GPUs, once all ranks have come."""
    ranks, first_rank = place
    shared = UniqueId.from_buffer_copy(unique_id)
    communicators = [ctypes.c_void_p() for _ in range(gpus.count)]
    nccl.call("ncclGroupStart")
    for index, communicator in enumerate(communicators):
        gpus.select(index)
        nccl.call("ncclCommInitRank", ctypes.addressof(communicator), ranks, shared, first_rank + index)
    nccl.call("ncclGroupEnd")
    return communicators


def run_rounds(gpus: Gpus, reduce_once: Callable[[], None], rounds: int) -> float:
    """Return the seconds from the first call until all GPUs are done."""
    started = time.perf_counter()
    for _ in range(rounds):
        reduce_once()
    for index in range(gpus.count):
        gpus.select(index)
        gpus.synchronize()
    return max(time.perf_counter() - started, 1e-9)


def build_operand(count: int, factor: int) -> bytes:
    """Return ``count`` float32 values: ``factor`` times a short repeated pattern."""
    period = struct.pack(f"<{PERIOD}f", *(factor * (1 + index) for index in range(PERIOD)))
    return (period * (count // PERIOD + 1))[: count * 4]


def count_differences(result: bytes, expected: bytes) -> int:
    """Return how many float32 values differ in any bit."""
    if result == expected:
        return 0
    return sum(map(ne, array("I", result), array("I", expected)))
