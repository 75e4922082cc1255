"""How many streams a replica can hold at once: what its memory leaves beside the weights."""

from __future__ import annotations

from gpufleet.sizing.memory import usable_gib, weight_bytes
from gpufleet.sizing.speed import device, operation_count
from gpufleet.sizing.speed.replica import Replica

RUNTIME_RESERVE = 0.10  # of usable memory: runtime, activations, fragments; serving engines' own default


def max_streams(setting: Replica) -> float:
    """Return how many sequences fit at once; 0 where not even one does.

    A server admits sequences as others end, so that at any time the mean one is half generated.
    """
    part, layout, work = setting.hardware.accelerator, setting.layout, setting.workload
    memory = usable_gib(part) * 2**30 * (1 - RUNTIME_RESERVE) * layout.tensor * layout.pipeline
    held = weight_bytes(work.model, setting.precision)
    length = work.input_tokens + work.output_tokens / (2 if device.is_server_engine(setting.engine) else 1)
    each = operation_count.kv_cache_bytes(work.model, setting.kv_precision, max(length, 1))
    return max(0.0, (memory - held) / each)
