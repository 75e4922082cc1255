"""Memory of inference on the fullest device: weights, cache, work space, runtime."""

from __future__ import annotations

from dataclasses import dataclass

from gpufleet.catalog import Accelerator
from gpufleet.catalog.parameters import matrices
from gpufleet.sizing.hardware import Hardware, Layout
from gpufleet.sizing.memory.blocks import is_gguf, precision_name
from gpufleet.sizing.memory.cache import kv_bytes
from gpufleet.sizing.memory.result import GIB, Share
from gpufleet.sizing.memory.weights import matrix_bits, weight_bytes
from gpufleet.sizing.workload import Workload


@dataclass(frozen=True)
class Engine:
    """How an engine uses memory. ``claims`` is the share of the card it takes whatever is needed."""

    name: str
    chunk: int  # tokens of one prompt step
    graphs_gib: float  # captured CUDA graphs
    runtime_gib: float  # context, libraries, work space of its kernels
    claims: float = 0.0


ENGINES = {
    "llama.cpp": Engine("llama.cpp", chunk=512, graphs_gib=0.0, runtime_gib=0.3),
    "mlx": Engine("mlx", chunk=512, graphs_gib=0.0, runtime_gib=0.2),
    "rknn": Engine("rknn", chunk=128, graphs_gib=0.0, runtime_gib=0.0),
    "vllm": Engine("vllm", chunk=8192, graphs_gib=1.0, runtime_gib=1.0, claims=0.9),
    "tensorrt-llm": Engine("tensorrt-llm", chunk=8192, graphs_gib=1.0, runtime_gib=1.0, claims=0.9),
    "sglang": Engine("sglang", chunk=8192, graphs_gib=1.0, runtime_gib=1.0, claims=0.88),
    "pytorch": Engine("pytorch", chunk=2048, graphs_gib=0.0, runtime_gib=0.5),
}


def engine_of(workload: Workload, part: Accelerator) -> Engine:
    """Return the named engine's habits, or those of the usual engine of that hardware."""
    named = (workload.engine or "").lower().replace("_", "-")
    for name, engine in ENGINES.items():
        if named and name.replace("-", "").replace(".", "") in named.replace("-", "").replace(".", ""):
            return engine
    if "rknn" in part.stacks:
        return ENGINES["rknn"]
    own = is_gguf(precision_name(workload.precision)) or part.kind in {"sbc", "apple", "apu"}
    return ENGINES["llama.cpp" if own or part.unified else "vllm"]


def inference_share(workload: Workload, layout: Layout, hardware: Hardware) -> Share:
    """Return what inference takes on the fullest device of that layout."""
    model, engine = workload.model, engine_of(workload, hardware.accelerator)
    name, parts = precision_name(workload.precision), _parts(layout)
    share = Share()
    share.weights = _fullest(workload, name, layout)
    cache = workload.batch * kv_bytes(model, workload.context, workload.kv_precision)
    share.kv_cache = cache / _cache_parts(workload, layout)
    tokens = min(engine.chunk, max(workload.batch * workload.input_tokens, workload.batch))
    wide = max(model.intermediate, model.hidden * 2, model.heads * model.head_dim)
    work = tokens * (6.0 * model.hidden + 2.0 * 2.0 * wide / max(1, layout.tensor))
    logits = min(tokens, max(workload.batch, 1)) * model.vocabulary * 4.0
    share.activations = work + logits
    share.overhead = (engine.runtime_gib + (engine.graphs_gib if parts else 0.0)) * GIB
    return share


def _parts(layout: Layout) -> int:
    return max(1, layout.tensor * layout.pipeline)


def _fullest(workload: Workload, name: str, layout: Layout) -> float:
    """Return the weights of the device that holds most: its layers and an end of the model."""
    model = workload.model
    stages = layout.pipeline if layout.split != "layer" else max(layout.pipeline, layout.devices)
    if stages == 1:
        return weight_bytes(model, workload.precision) / layout.tensor
    total = weight_bytes(model, workload.precision)
    ends = sum(
        m.elements * matrix_bits(m, model, name) / 8
        for m in matrices(model)
        if m.kind in {"embedding", "output"}
    )
    largest = max(
        (
            m.elements * matrix_bits(m, model, name) / 8
            for m in matrices(model)
            if m.kind in {"embedding", "output"}
        ),
        default=0.0,
    )
    layers = -(-model.layers // stages)
    return ((total - ends) * layers / model.layers + largest) / layout.tensor


def _cache_parts(workload: Workload, layout: Layout) -> float:
    """Return over how many devices the cache is spread: heads by tensor parallelism, layers by stages."""
    model = workload.model
    stages = layout.pipeline if layout.split != "layer" else max(layout.pipeline, layout.devices)
    heads = 1 if model.latent else max(1, min(layout.tensor, model.kv_heads))
    return heads * model.layers / -(-model.layers // stages)
