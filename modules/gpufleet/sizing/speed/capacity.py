"""How many streams a replica can process at once: memory without the weights."""

from __future__ import annotations

from dataclasses import replace

from gpufleet.sizing.memory.estimate import usable_memory_gib
from gpufleet.sizing.memory.inference import weight_bytes_on_fullest_device
from gpufleet.sizing.memory.kv_cache import kv_cache_bytes
from gpufleet.sizing.speed import device
from gpufleet.sizing.speed.replica import Replica

RUNTIME_RESERVE = (
    0.10  # of usable memory, for runtime and activations; vLLM's default gpu_memory_utilization is 0.9
)
MAX_ENCODER_STREAMS = 1024.0  # documents of an encoder, which keeps no cache: more in a batch gain nothing


def max_concurrent_streams(replica: Replica) -> float:
    """Return how many sequences fit at once; 0 if none fits.

    With continuous batching the average sequence is half generated.
    """
    accelerator, layout, work = replica.hardware.accelerator, replica.layout, replica.workload
    free = usable_memory_gib(accelerator) * 2**30 * (1 - RUNTIME_RESERVE) - weight_bytes_on_fullest_device(
        replace(work, precision=replica.weight_precision), layout
    )
    length = work.input_tokens + work.output_tokens / (
        2 if device.is_server_engine(replica.calibrated_engine) else 1
    )
    cache_per_stream = kv_cache_bytes(work.model, max(length, 1), replica.kv_precision)
    if not cache_per_stream:
        return MAX_ENCODER_STREAMS if free > 0 else 0.0
    spread = replica.cache_devices * work.model.layers / -(-work.model.layers // layout.pipeline)
    return max(0.0, free / cache_per_stream * spread * replica.attention_groups)
