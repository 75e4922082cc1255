"""Memory of inference on the fullest device: weights, KV cache, activations, runtime."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from gpufleet.boundary import read_table
from gpufleet.catalog import Accelerator
from gpufleet.catalog.architecture import ModelArchitecture
from gpufleet.quick_dataclass import dataclass
from gpufleet.sizing.hardware import Hardware, ParallelLayout
from gpufleet.sizing.memory.constants import load_memory_constants
from gpufleet.sizing.memory.kv_cache import kv_cache_bytes
from gpufleet.sizing.memory.quantization import is_gguf_precision, normalize_precision
from gpufleet.sizing.memory.result import GIB, DeviceMemoryUse
from gpufleet.sizing.memory.weights import list_matrix_bytes, weight_bytes
from gpufleet.sizing.workload import Workload

EMBEDDING_AND_OUTPUT = {"embedding", "output"}


@dataclass(frozen=True)
class EngineMemoryProfile:
    """How an engine uses memory. ``gpu_memory_utilization`` (vLLM's option) is the share of the card it allocates.

    ``logit_rows`` are the rows of logits that it always reserves; ``prefill_chunk_tokens`` the tokens of a prompt step.
    """

    name: str
    prefill_chunk_tokens: int
    logit_rows: int
    graphs_gib: float
    runtime_gib: float
    gpu_memory_utilization: float
    hidden_bytes: float  # activation bytes per token and unit of the hidden size
    intermediate_bytes: float  # the same per unit of the intermediate size
    reserves_full_chunk: bool  # allocates a full prompt step even for a short prompt
    has_host_embedding: bool  # embedding stays in host memory if the card has its own
    has_growing_cache: bool  # the cache grows with each token: it isn't allocated for the whole sequence


# llama.cpp: n_ubatch 512, its compute buffer holds as many rows of logits. vLLM, SGLang, TensorRT-LLM: prompt
# steps of 8,192 tokens and 256 sequences, tried out before the cache is set up; their width is fitted to the
# 1.26 GiB that vllm pull 10511 (2024-12) measured for Llama 3 8B on an 80 GB card. CUDA graphs took 2.4 GiB on an
# RTX 4090 in vllm issue 7553 (2024); fewer are captured since, assumption: 1 GiB. transformers: no graphs, the
# whole prompt in one step, of up to 2^30 tokens; what it holds and the runtime are constants of memory_constants.csv.
# llama.cpp looks the embedding up in host memory; its 0.25 GiB lie between the 4,096 tokens that ran and the 8,192
# that did not for Llama 3 8B in 16 bits on an RTX 4080 (XiongjieDai's benchmarks, 2024).
ENGINE_MEMORY = {
    engine.name: engine
    for engine in read_table(EngineMemoryProfile, "gpufleet.sizing", "data/engine_memory.csv")
}
ENGINE_ALIASES = {
    "trtllm": "tensorrt-llm",
    "tensorrt": "tensorrt-llm",
    "ollama": "llama.cpp",
    "gptfast": "pytorch",
    "huggingface": "transformers",
}
NAMES_BY_SPELLING = {name.replace("-", "").replace(".", ""): name for name in ENGINE_MEMORY} | ENGINE_ALIASES


def choose_engine_memory_profile(workload: Workload, accelerator: Accelerator) -> EngineMemoryProfile:
    """Return how the named engine uses memory, or the default engine of that hardware."""
    if name := _find_profile_name(workload.engine or ""):
        return _with_measured_constants(ENGINE_MEMORY[name])
    if accelerator.kind == "npu" and "rknn" in accelerator.stacks:
        return ENGINE_MEMORY["rknn"]
    runs_in_llama_cpp = (
        is_gguf_precision(normalize_precision(workload.precision))
        or bool(workload.model.stored)
        or accelerator.kind in {"sbc", "apple", "apu", "cpu"}
    )
    return ENGINE_MEMORY["llama.cpp" if runs_in_llama_cpp or accelerator.unified else "vllm"]


@lru_cache(maxsize=256)
def _find_profile_name(engine: str) -> str | None:
    letters = "".join(letter for letter in engine.lower() if letter.isalnum())
    return next((name for spelling, name in NAMES_BY_SPELLING.items() if spelling in letters), None)


def _with_measured_constants(engine: EngineMemoryProfile) -> EngineMemoryProfile:
    if engine.name != "transformers":
        return engine
    values = load_memory_constants()
    width, block = values["transformers_width"], values["transformers_block"]
    return replace(
        engine, runtime_gib=values["transformers_gib"], hidden_bytes=width, intermediate_bytes=block
    )


def estimate_inference_memory(
    workload: Workload, layout: ParallelLayout, hardware: Hardware, engine: EngineMemoryProfile
) -> DeviceMemoryUse:
    """Return the memory of inference on the fullest device of that layout."""
    model = workload.model
    if engine.name == "llama.cpp" and normalize_precision(workload.precision) == "mxfp4":
        workload = replace(workload, precision="mxfp4_moe")  # its files store all but the experts in 8 bits
    share = DeviceMemoryUse(
        weights=weight_bytes_on_fullest_device(workload, layout)
        - _host_embedding_bytes(workload, engine, layout, hardware)
    )
    if engine.name == "rknn":
        return _rknn_memory(workload, share)
    micro_batch = engine.prefill_chunk_tokens if engine.name == "llama.cpp" else 0
    cache = workload.batch * kv_cache_bytes(
        model, workload.context_tokens, workload.kv_precision, micro_batch=micro_batch
    )
    state = workload.batch * kv_cache_bytes(model, 0, workload.kv_precision)  # of a fixed size
    state_heads = model.linear.value_heads if model.linear else model.kv_heads
    groups = _attention_groups(layout)
    share.kv_cache = (cache - state) / groups / _cache_share(model, layout, model.kv_heads)
    share.kv_cache += state / groups / _cache_share(model, layout, state_heads)
    share.activations = _activation_bytes(workload, engine, layout)
    if engine.has_growing_cache:
        share.activations = _activations_beyond_final_cache(workload, engine, layout, share)
    share.overhead = (engine.graphs_gib + engine.runtime_gib) * GIB
    return share


def _activations_beyond_final_cache(
    workload: Workload, engine: EngineMemoryProfile, layout: ParallelLayout, share: DeviceMemoryUse
) -> float:
    """Return the activations of the larger peak less the cache that is not yet there.

    One peak is the prompt step, when the cache holds the prompt only, the other is the last generated token.
    """
    model, tokens = workload.model, max(workload.context_tokens, 1)
    prompt_share = kv_cache_bytes(model, workload.input_tokens, workload.kv_precision) / kv_cache_bytes(
        model, tokens, workload.kv_precision
    )
    last = _activation_bytes(replace(workload, input_tokens=1), engine, layout)
    return max(last, share.activations - share.kv_cache * (1.0 - prompt_share))


def _host_embedding_bytes(
    workload: Workload, engine: EngineMemoryProfile, layout: ParallelLayout, hardware: Hardware
) -> float:
    """Return the bytes of an embedding that stays in host memory; a tied one is on the card as the output matrix."""
    model, accelerator = workload.model, hardware.accelerator
    has_unified_memory = accelerator.unified or hardware.unified or accelerator.kind in {"sbc", "npu"}
    if (
        not engine.has_host_embedding
        or has_unified_memory
        or model.tied_embeddings
        or _pipeline_stages(layout) > 1
    ):
        return 0.0
    sizes = list_matrix_bytes(model, normalize_precision(workload.precision))
    return sum(size for matrix, size in sizes if matrix.kind == "embedding") / layout.tensor


def weight_bytes_on_fullest_device(workload: Workload, layout: ParallelLayout) -> float:
    """Return the weight bytes of the fullest device: its layers, its experts, and the embedding or output matrix."""
    model, name = workload.model, normalize_precision(workload.precision)
    total, stages = weight_bytes(model, workload.precision), _pipeline_stages(layout)
    routed = embedding_bytes = largest = 0.0
    if layout.expert > layout.tensor:
        routed = sum(size for matrix, size in list_matrix_bytes(model, name) if matrix.routed)
    if stages > 1:
        ends = [
            size for matrix, size in list_matrix_bytes(model, name) if matrix.kind in EMBEDDING_AND_OUTPUT
        ]
        embedding_bytes, largest = sum(ends), max(ends)
    layers = -(-model.layers // stages) / model.layers
    layer_bytes = total - embedding_bytes - routed
    return (layer_bytes * layers + largest) / layout.tensor + routed * layers / max(
        layout.expert, layout.tensor
    )


def _rknn_memory(workload: Workload, share: DeviceMemoryUse) -> DeviceMemoryUse:
    """Return RKNN's memory: the embedding stays in the file unless it is also the output matrix."""
    model, known = workload.model, load_memory_constants()
    if not model.tied_embeddings:
        share.weights -= model.vocabulary * model.hidden
    share.overhead = known["rknn_runtime_mb"] * 1e6 + known["rknn_token_kb"] * 1e3 * model.vocabulary
    share.kv_cache = workload.batch * kv_cache_bytes(model, workload.context_tokens, workload.kv_precision)
    return share


def _activation_bytes(workload: Workload, engine: EngineMemoryProfile, layout: ParallelLayout) -> float:
    """Return the bytes of one prompt step's activations and of the reserved logits."""
    model = workload.model
    batch = -(-workload.batch // _attention_groups(layout))
    prompt_tokens = max(batch * workload.input_tokens, batch)
    tokens = (
        engine.prefill_chunk_tokens
        if engine.gpu_memory_utilization or engine.reserves_full_chunk
        else min(engine.prefill_chunk_tokens, prompt_tokens)
    )
    width = max(
        model.intermediate, model.experts.per_token * model.experts.intermediate if model.experts else 0
    )
    values = engine.hidden_bytes * model.hidden + engine.intermediate_bytes * width / layout.tensor
    rows = max(batch, min(engine.logit_rows, max(tokens, batch)))
    return tokens * values + rows * model.vocabulary * 4.0


def _pipeline_stages(layout: ParallelLayout) -> int:
    return (
        max(layout.pipeline, layout.devices // layout.tensor) if layout.split == "layer" else layout.pipeline
    )


def _attention_groups(layout: ParallelLayout) -> int:
    """Return the groups of attention data parallelism, each with its share of the streams."""
    return layout.data if layout.expert > 1 else 1


def count_cache_devices(model: ModelArchitecture, layout: ParallelLayout, head_count: int) -> int:
    """Return over how many devices tensor parallelism spreads a layer's cache: by its heads; a latent one has none."""
    return 1 if model.latent else max(1, min(layout.tensor, head_count))


def _cache_share(model: ModelArchitecture, layout: ParallelLayout, head_count: int) -> float:
    """Return over how many devices the KV cache is spread: heads by tensor parallelism, layers by pipeline stages."""
    heads = count_cache_devices(model, layout, head_count)
    return heads * model.layers / -(-model.layers // _pipeline_stages(layout))
