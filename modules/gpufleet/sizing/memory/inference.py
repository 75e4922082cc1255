"""Memory of inference on the fullest device: weights, cache, work space, runtime."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpufleet.catalog import Accelerator
from gpufleet.catalog.architecture import Architecture
from gpufleet.catalog.parameters import matrices
from gpufleet.sizing.hardware import Hardware, Layout
from gpufleet.sizing.memory.constants import constants
from gpufleet.sizing.memory.kv_cache import kv_bytes
from gpufleet.sizing.memory.quantization import is_gguf, precision_name
from gpufleet.sizing.memory.result import GIB, Share
from gpufleet.sizing.memory.weights import matrix_bits, weight_bytes
from gpufleet.sizing.workload import Workload

WHOLE_PROMPT = 1 << 30
ENDS = {"embedding", "output"}


@dataclass(frozen=True)
class Engine:
    """How an engine uses memory. ``claims`` is the share of the card it takes whatever is needed.

    ``rows`` are the logits it sets memory aside for, whatever the batch; ``chunk`` the tokens of a prompt step.
    """

    name: str
    chunk: int
    rows: int
    graphs_gib: float
    runtime_gib: float
    claims: float = 0.0
    width: float = 6.0  # bytes at work per token and unit of the model's width
    block: float = 2.0  # the same per unit of the feed-forward width
    reserves: bool = False  # sets aside a whole prompt step, however short the prompt is
    host_embedding: bool = False  # looked up by the host's processor, where the card has its own memory


# llama.cpp: n_ubatch 512, its compute buffer holds as many rows of logits. vLLM, SGLang, TensorRT-LLM: prompt
# steps of 8,192 tokens and 256 sequences, tried out before the cache is set up; their width is fitted to the
# 1.26 GiB that vllm pull 10511 (2024-12) measured for Llama 3 8B on an 80 GB card. CUDA graphs took 2.4 GiB on an
# RTX 4090 in vllm issue 7553 (2024); fewer are captured since, for which we set 1 GiB. transformers: no graphs, the
# whole prompt in one step; what a step holds and the runtime are constants of memory_constants.csv.
# llama.cpp looks the embedding up in host memory; its 0.25 GiB lie between the 4,096 tokens that ran and the 8,192
# that did not for Llama 3 8B in 16 bits on an RTX 4080 (XiongjieDai's benchmarks, 2024).
ENGINES = {
    "llama.cpp": Engine(
        "llama.cpp",
        chunk=512,
        rows=512,
        graphs_gib=0.0,
        runtime_gib=0.25,
        reserves=True,
        host_embedding=True,
    ),
    "mlx": Engine("mlx", chunk=512, rows=1, graphs_gib=0.0, runtime_gib=0.2),
    "rknn": Engine("rknn", chunk=128, rows=1, graphs_gib=0.0, runtime_gib=0.0),
    "vllm": Engine("vllm", chunk=8192, rows=256, graphs_gib=1.0, runtime_gib=0.5, claims=0.9, width=28.0),
    "sglang": Engine(
        "sglang", chunk=8192, rows=256, graphs_gib=1.0, runtime_gib=0.5, claims=0.88, width=28.0
    ),
    "tensorrt-llm": Engine(
        "tensorrt-llm", chunk=8192, rows=256, graphs_gib=1.0, runtime_gib=0.5, claims=0.9, width=28.0
    ),
    "pytorch": Engine("pytorch", chunk=2048, rows=1, graphs_gib=0.0, runtime_gib=0.3),
    "transformers": Engine("transformers", chunk=WHOLE_PROMPT, rows=1, graphs_gib=0.0, runtime_gib=0.0),
}
SPELLINGS = {
    "trtllm": "tensorrt-llm",
    "tensorrt": "tensorrt-llm",
    "ollama": "llama.cpp",
    "gptfast": "pytorch",
    "huggingface": "transformers",
}


def engine_of(workload: Workload, part: Accelerator) -> Engine:
    """Return the named engine's habits, or those of the usual engine of that hardware."""
    named = "".join(letter for letter in (workload.engine or "").lower() if letter.isalnum())
    spelled = {name.replace("-", "").replace(".", ""): name for name in ENGINES} | SPELLINGS
    for spelling, name in spelled.items():
        if named and spelling in named:
            return _measured(ENGINES[name])
    if part.kind == "npu" and "rknn" in part.stacks:
        return ENGINES["rknn"]
    own = is_gguf(precision_name(workload.precision)) or part.kind in {"sbc", "apple", "apu"}
    return ENGINES["llama.cpp" if own or part.unified else "vllm"]


def _measured(engine: Engine) -> Engine:
    if engine.name != "transformers":
        return engine
    known = constants()
    width, block = known["transformers_width"], known["transformers_block"]
    return replace(engine, runtime_gib=known["transformers_gib"], width=width, block=block)


def inference_share(workload: Workload, layout: Layout, hardware: Hardware) -> Share:
    """Return what inference takes on the fullest device of that layout."""
    model, engine = workload.model, engine_of(workload, hardware.accelerator)
    workload = replace(workload, precision=run_precision(workload, hardware.accelerator))
    share = Share(weights=fullest_weights(workload, layout) - _on_host(workload, engine, layout, hardware))
    if engine.name == "rknn":
        return _rknn(workload, share)
    cache = workload.batch * kv_bytes(model, workload.context, workload.kv_precision)
    share.kv_cache = cache / _cache_parts(model, layout)
    share.activations = _work(workload, engine, layout)
    share.overhead = (engine.graphs_gib + engine.runtime_gib) * GIB
    return share


def run_precision(workload: Workload, part: Accelerator) -> str:
    """Return the format the engine holds: llama.cpp's MXFP4 files have all but the experts in 8 bits."""
    if precision_name(workload.precision) == "mxfp4" and engine_of(workload, part).name == "llama.cpp":
        return "mxfp4_moe"
    return workload.precision


def _on_host(workload: Workload, engine: Engine, layout: Layout, hardware: Hardware) -> float:
    """Return the bytes of an embedding that stays in host memory; a tied one is on the card as the output."""
    model, part = workload.model, hardware.accelerator
    shared = part.unified or hardware.unified or part.kind in {"sbc", "npu"}
    if not engine.host_embedding or shared or model.tied_embeddings or _stages(layout) > 1:
        return 0.0
    name = precision_name(workload.precision)
    sizes = [m.elements * matrix_bits(m, model, name) / 8 for m in matrices(model) if m.kind == "embedding"]
    return sum(sizes) / layout.tensor


def fullest_weights(workload: Workload, layout: Layout) -> float:
    """Return the weights of the device that holds most: its layers, its experts, and an end of the model."""
    model, name = workload.model, precision_name(workload.precision)
    total, stages = weight_bytes(model, workload.precision), _stages(layout)
    routed = _bytes(model, name, routed=True) if layout.expert > layout.tensor else 0.0
    ends, largest = _ends(model, name)
    layers = -(-model.layers // stages) / model.layers
    if stages == 1:
        ends = largest = 0.0
    body = total - ends - routed
    return (body * layers + largest) / layout.tensor + routed * layers / max(layout.expert, layout.tensor)


def _rknn(workload: Workload, share: Share) -> Share:
    """Count what RKNN's runtime holds: the embedding stays in the file unless it is the output as well."""
    model, known = workload.model, constants()
    if not model.tied_embeddings:
        share.weights -= model.vocabulary * model.hidden
    share.overhead = known["rknn_runtime_mb"] * 1e6 + known["rknn_token_kb"] * 1e3 * model.vocabulary
    share.kv_cache = workload.batch * kv_bytes(model, workload.context, workload.kv_precision)
    return share


def _work(workload: Workload, engine: Engine, layout: Layout) -> float:
    """Return the bytes of one prompt step's values and of the logits set aside."""
    model = workload.model
    asked = max(workload.batch * workload.input_tokens, workload.batch)
    tokens = engine.chunk if engine.claims or engine.reserves else min(engine.chunk, asked)
    width = max(
        model.intermediate, model.experts.per_token * model.experts.intermediate if model.experts else 0
    )
    values = engine.width * model.hidden + engine.block * width / layout.tensor
    rows = max(workload.batch, min(engine.rows, max(tokens, workload.batch)))
    return tokens * values + rows * model.vocabulary * 4.0


def _stages(layout: Layout) -> int:
    return (
        max(layout.pipeline, layout.devices // layout.tensor) if layout.split == "layer" else layout.pipeline
    )


def _bytes(model: Architecture, name: str, *, routed: bool) -> float:
    return sum(m.elements * matrix_bits(m, model, name) / 8 for m in matrices(model) if m.routed is routed)


def _ends(model: Architecture, name: str) -> tuple[float, float]:
    """Return the bytes of embedding and output together, and of the larger one."""
    sizes = [m.elements * matrix_bits(m, model, name) / 8 for m in matrices(model) if m.kind in ENDS]
    return sum(sizes), max(sizes)


def _cache_parts(model: Architecture, layout: Layout) -> float:
    """Return over how many devices the cache is spread: heads by tensor parallelism, layers by stages."""
    heads = 1 if model.latent else max(1, min(layout.tensor, model.kv_heads))
    return heads * model.layers / -(-model.layers // _stages(layout))
